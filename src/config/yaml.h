// Trees from YAML text and back.
#pragma once

#include <string>
#include <string_view>

#include "config/tree.h"

namespace trireme {

// Every error in the text is a UserError that starts with name:line. Errors include duplicate keys, merge keys, several
// documents, and text that is too large, nested too deeply or binary.
Tree read_yaml(std::string_view text, const std::string& name);
Tree read_yaml_file(const std::string& path);

// Block style, short lists of scalars in brackets. Reads back as the same tree.
std::string write_yaml(const Tree& tree);

}  // namespace trireme
