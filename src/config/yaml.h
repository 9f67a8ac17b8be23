// Trees from YAML text and back.
#pragma once

#include <string>
#include <string_view>

#include "config/tree.h"

namespace trireme {

// Each mistake in the text is one UserError that starts with name:line. Duplicate keys, merge keys, several documents, and text
// that is too large, too deep or not text at all are mistakes.
Tree read_yaml(std::string_view text, const std::string& name);
Tree read_yaml_file(const std::string& path);

// Block style, short lists of scalars in brackets. Reading it gives the same tree.
std::string write_yaml(const Tree& tree);

}  // namespace trireme
