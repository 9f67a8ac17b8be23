// Options whose value is one of a few words. The error for another word lists all valid ones.
#pragma once

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/suggestions.h"

namespace trireme {

// Returns "a", "a or b" or "a, b or c".
inline std::string either_of(const std::vector<std::string>& words) {
  if (words.size() < 2) return words.empty() ? "" : words.front();
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

// Returns a validator for CLI::Option::check.
inline CLI::Validator one_of(std::vector<std::string> words) {
  return {[words = std::move(words)](const std::string& value) {
            if (std::ranges::find(words, value) != words.end()) return std::string();
            return fmt::format("{} is not known; expected {}{}", value, either_of(words), did_you_mean(value, words));
          },
          ""};
}

template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;

// Adds an option that calls `set` with the value of the given word.
template <class Value, class Set>
CLI::Option* add_choice(CLI::App& command, const std::string& name, const Choices<Value>& choices, Set set,
                        const std::string& help) {
  std::vector<std::string> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  const auto apply = [choices, set](const std::string& word) {
    for (const auto& [known, value] : choices)
      if (known == word) set(value);
  };
  return command.add_option_function<std::string>(name, apply, help)->check(one_of(words));
}

}  // namespace trireme
