// References between the values of a recipe:
//   ${a.b}    the value at a.b            ${.x}   the value beside this one      ${..x}  one level up, and so on
//   ${multiply:x,y}   ${sum:x,y}   ${divide_ceil:x,y}   ${divide_floor:x,y}    arithmetic on numbers or further references
//   ${oc.env:NAME,default}              an environment variable
//   ${oc.select:a.b,default}            the value at a.b if there is one
//   ${oc.decode:TEXT}                   what the text means as a value: a number, null, a list
//   ${hydra:runtime.choices.GROUP}      the file that was chosen for a group of the defaults list
// A value that is one reference takes the kind of what it refers to; a reference inside a longer text becomes text as
// Python prints it (None, True). ${a[0]} is ${a.0}. \${ is the text ${ and not a reference.
#pragma once

#include <functional>
#include <string>

#include "config/tree.h"

namespace trireme {

struct InterpolationContext {
  // Keys in which references may lead nowhere, because no setting reads them. Such a value stays as written.
  std::function<bool(const std::string& key)> may_dangle = [](const std::string&) { return false; };
  // Called for every reference: the place of the value that holds it, and the place it refers to.
  std::function<void(const std::string& by, const std::string& to)> refers = [](const std::string&, const std::string&) {};
  // The name chosen for a group; empty if there is no such group.
  std::function<std::string(const std::string& group)> choice = [](const std::string&) { return std::string{}; };
};

// Replaces every reference in the recipe by its value. References to themselves, to nothing, or to a required value that is not
// given (???) are UserErrors. If the recipe has no key `training`, training.a.b means a.b, because the launcher keeps recipes
// under that key.
void resolve_interpolations(Tree& recipe, const InterpolationContext& context = {});

// Whether this is a required value that the user has not given.
bool is_missing_value(const Tree& value);

}  // namespace trireme
