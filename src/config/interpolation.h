// References between the values of a recipe:
//   ${a.b}    the value at a.b            ${.x}   the value beside this one      ${..x}  one level up, and so on
//   ${multiply:x,y}   ${divide_ceil:x,y}   ${divide_floor:x,y}    arithmetic on numbers or further references
// A value that is one reference takes the kind of what it refers to; a reference inside a longer text becomes text.
#pragma once

#include "config/tree.h"

namespace trireme {

// Replaces every reference in the recipe by what it stands for. References to themselves, to nothing, or to a value that still
// has to be given (???) are UserErrors.
void resolve_interpolations(Tree& recipe);

// A value that the user still has to give.
bool is_missing_value(const Tree& value);

}  // namespace trireme
