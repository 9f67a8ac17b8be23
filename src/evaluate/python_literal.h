// Lists, dictionaries, texts and numbers as Python's repr writes them, which some datasets have inside of a field.
#pragma once

#include <string_view>

#include "evaluate/text_template.h"

namespace trireme {

// WrongDocument for anything else, and for nesting deeper than a dataset has.
Document read_python_literal(std::string_view text);

}  // namespace trireme
