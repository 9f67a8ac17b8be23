#include "config/fields.h"

#include <cmath>

namespace trireme {

namespace {

// Integers may also be written like 1e5.
std::optional<int64_t> as_integer(const Tree& value) {
  if (value.kind() == Tree::Kind::integer) return value.integer();
  if (value.kind() != Tree::Kind::real) return std::nullopt;
  constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
  const double number = value.real();
  if (!(std::abs(number) <= kExactIntegers) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

std::string IntegerRange::text() const { return fmt::format("an integer from {} to {}{}", least, most, null ? " or null" : ""); }

std::string RealRange::text() const {
  return fmt::format("a number from {} to {}{}{}", least, end == Most::excluded ? "below " : "", most, null ? " or null" : "");
}

int64_t read_integer(const Tree& value, const IntegerRange& range, const std::string& accepts) {
  if (value.is_null() && range.null) return *range.null;
  const auto number = as_integer(value);
  if (!number || *number < range.least || *number > range.most) throw BadValue{"expected " + accepts};
  return *number;
}

int64_t read_integer(const Tree& value, const IntegerRange& range) { return read_integer(value, range, range.text()); }

double read_real(const Tree& value, const RealRange& range) {
  if (value.is_null() && range.null) return *range.null;
  double number = std::nan("");
  if (value.kind() == Tree::Kind::real) number = value.real();
  if (value.kind() == Tree::Kind::integer) number = static_cast<double>(value.integer());
  const bool too_large = range.end == Most::included ? number > range.most : number >= range.most;
  if (!(number >= range.least) || too_large) throw BadValue{"expected " + range.text()};
  return number;
}

bool read_boolean(const Tree& value) {
  // Some NeMo recipes write booleans as 0 and 1.
  if (value.kind() == Tree::Kind::integer && (value.integer() == 0 || value.integer() == 1)) return value.integer() == 1;
  if (value.kind() != Tree::Kind::boolean) throw BadValue{"expected true or false"};
  return value.boolean();
}

std::string read_text(const Tree& value) {
  if (value.is_list() || value.is_map() || value.is_null()) throw BadValue{"expected text"};
  return value.text();
}

std::string join_names(const std::vector<std::string>& names) {
  std::string joined;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) joined += i + 1 < names.size() ? ", " : " or ";
    joined += names[i];
  }
  return joined;
}

}  // namespace trireme
