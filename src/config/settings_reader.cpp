#include "config/settings_reader.h"

#include <algorithm>

#include "base/error.h"
#include "config/complete.h"
#include "config/interpolation.h"
#include "config/known_keys.h"
#include "config/launcher_request.h"
#include "config/settings_fields.h"
#include "config/suggestions.h"

namespace trireme {

namespace {

// Every key a message may suggest.
const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const Field& field : settings_fields()) all.push_back(field.key);
    for (const RestrictedKey& restricted : restricted_keys()) all.push_back(restricted.key);
    for (const KeysWithoutEffect& group : keys_without_effect())
      for (const std::string& ignored : group.keys)
        if (!ignored.ends_with('*')) all.push_back(ignored);
    return all;
  }();
  return keys;
}

// Whether a key only groups others, such as model.optim.
bool is_group(const std::string& key) {
  return std::ranges::any_of(known_keys(), [&](const std::string& known) { return known.starts_with(key + "."); });
}

void read_value(const Field& field, const Tree& value, Settings& settings) {
  try {
    field.read(settings, value);
  } catch (const BadValue& bad) {
    throw UserError("{}={}: {}{}", field.key, value.brief(), bad.reason, value.where_suffix());
  }
}

class Reader {
 public:
  ReadSettings read(const Tree& recipe) {
    // If it is not given, ffn_hidden_size follows from the other settings.
    result_.settings.model.ffn_hidden_size = 0;
    if (!recipe.is_map() && !recipe.is_null())
      throw UserError("a recipe must be a map of keys such as trainer: and model:{}", recipe.where_suffix());
    const Tree* data = recipe.find("model.data.data_impl");
    is_made_up_ = data != nullptr && data->text().starts_with("mock");
    if (recipe.is_map()) read_group(recipe, "");
    complete(recipe, result_.settings);
    return std::move(result_);
  }

 private:
  void read_group(const Tree& group, const std::string& path) {
    for (const Tree::Entry& entry : group.map()) read_key(join_path(path, entry.key), entry.value);
  }

  void read_key(const std::string& key, const Tree& value) {
    if (const Field* field = find_setting(key)) return read_field(*field, value);
    if (const RestrictedKey* restricted = find_restricted(key)) return read_restricted(*restricted, key, value);
    if (const auto ignored = find_without_effect(key)) return ignore(*ignored);
    if (!is_group(key)) complain_about(key, value);
    if (value.is_map()) return read_group(value, key);
    if (!value.is_null()) throw UserError("{}={}: {} is a group of keys{}", key, value.brief(), key, value.where_suffix());
  }

  // For an unknown group, names its first key: optim.lr, meant as model.optim.lr, can only be recognised by its last part.
  [[noreturn]] static void complain_about(const std::string& key, const Tree& value) {
    if (!value.is_map() || value.map().empty()) throw_unknown_key(key, value.where_suffix());
    const Tree::Entry& first = value.map().front();
    complain_about(join_path(key, first.key), first.value);
  }

  void read_field(const Field& field, const Tree& value) {
    if (is_missing_value(value) && field.key == "model.data.data_prefix" && is_made_up_) return;
    if (is_missing_value(value)) throw UserError("{} must be given: {}{}", field.key, field.accepts, value.where_suffix());
    read_value(field, value, result_.settings);
  }

  void read_restricted(const RestrictedKey& restricted, const std::string& key, const Tree& value) {
    if (value.is_null() || std::ranges::find(restricted.accepted, value.text()) != restricted.accepted.end()) return;
    if (restricted.other == OtherValue::is_said) return ignore({key, restricted.reason});
    throw UserError("{}={}: {}{}", key, value.brief(), restricted.reason, value.where_suffix());
  }

  // The launcher's own settings are reported separately.
  void ignore(const IdleKey& key) {
    if (key.reason.empty() || is_launcher_key(key.key)) return;
    if (std::ranges::find(result_.ignored_keys, key) == result_.ignored_keys.end()) result_.ignored_keys.push_back(key);
  }

  ReadSettings result_;
  bool is_made_up_ = false;  // the data needs no files; NeMo's recipes leave them to the user
};

}  // namespace

ReadSettings read_settings(const Tree& recipe) { return Reader().read(recipe); }

void check_given_values(const Tree& recipe) {
  Settings scratch;
  for (const Field& field : settings_fields()) {
    const Tree* value = recipe.find(field.key);
    if (value != nullptr && !is_missing_value(*value) && value->text().find("${") == std::string::npos)
      read_value(field, *value, scratch);
  }
}

bool is_known_key(std::string_view key) {
  return find_setting(key) != nullptr || find_restricted(key) != nullptr || find_without_effect(key).has_value() ||
         is_group(std::string(key));
}

void throw_unknown_key(std::string_view key, const std::string& where_suffix) {
  throw UserError("{}: unknown key{}{}", key, did_you_mean(key, known_keys()), where_suffix);
}

}  // namespace trireme
