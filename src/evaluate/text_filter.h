// Filters that the files of evaluation tasks apply to texts: {{field|strip}}, or the entries of a list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/tree.h"

namespace trireme {

struct TextFilter {
  std::string name;
  std::vector<std::string> arguments;

  std::string apply(std::string_view text) const;
};

// UserError, starting with `where`, for an unknown name or a wrong number of arguments.
TextFilter make_filter(const std::string& where, std::string name, std::vector<std::string> arguments);

// A list of names, or of {name: [arguments]}.
std::vector<TextFilter> read_filters(const std::string& where, const Tree& list);

std::string apply_filters(const std::vector<TextFilter>& filters, std::string text);

}  // namespace trireme
