#include "config/tree_json.h"

#include <cmath>

namespace trireme {

nlohmann::ordered_json to_json(const Tree& tree) {
  switch (tree.kind()) {
    case Tree::Kind::null:
      return nullptr;
    case Tree::Kind::boolean:
      return tree.boolean();
    case Tree::Kind::integer:
      return tree.integer();
    case Tree::Kind::real:  // JSON has no infinity and no NaN
      return std::isfinite(tree.real()) ? nlohmann::ordered_json(tree.real()) : nlohmann::ordered_json(tree.text());
    case Tree::Kind::string:
      return tree.string();
    case Tree::Kind::list: {
      auto list = nlohmann::ordered_json::array();
      for (const Tree& item : tree.list()) list.push_back(to_json(item));
      return list;
    }
    case Tree::Kind::map: {
      auto map = nlohmann::ordered_json::object();
      for (const Tree::Entry& entry : tree.map()) map[entry.key] = to_json(entry.value);
      return map;
    }
  }
  return nullptr;
}

nlohmann::json scalar_json(const Tree& value) {
  switch (value.kind()) {
    case Tree::Kind::null:
      return nullptr;
    case Tree::Kind::boolean:
      return value.boolean();
    case Tree::Kind::integer:
      return value.integer();
    case Tree::Kind::real:
      return value.real();
    default:
      return value.text();
  }
}

}  // namespace trireme
