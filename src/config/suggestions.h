// What a user may have meant by an unknown word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Letters to insert, remove, replace, or swap with their neighbour to turn one word into the other.
int64_t edit_distance(std::string_view a, std::string_view b);

// The candidate most similar to the word; empty if none is similar. A dotted key with the same last part is always similar,
// because a correct key in the wrong group is the most common mistake.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean X?", or empty.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trireme
