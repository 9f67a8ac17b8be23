#include "config/composer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "config/defaults_list.h"
#include "config/known_keys.h"
#include "config/litgpt.h"
#include "config/suggestions.h"
#include "config/yaml.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxFiles = 64;  // per recipe; more means that files name each other repeatedly
constexpr const char* kTraining = "training";

// The position of a file in the recipe.
struct Place {
  std::string group;    // its folder below a search folder
  std::string package;  // the key under which the file's keys are placed
};

std::string join_folder(const std::string& folder, const std::string& name) {
  if (name.starts_with('/')) return name.substr(1);
  return folder.empty() ? name : folder + "/" + name;
}

std::string as_package(std::string group) {
  std::ranges::replace(group, '/', '.');
  return group;
}

// The argument of "# @package a.b" in the first line of a file; nullopt without it.
std::optional<std::string> package_directive(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  constexpr std::string_view kMark = "@package ";
  const size_t mark = line.find(kMark);
  if (!line.starts_with('#') || mark == std::string::npos) return std::nullopt;
  return std::string(trimmed(std::string_view(line).substr(mark + kMark.size())));
}

class Composer {
 public:
  Composer(std::vector<Override> changes, const std::function<std::string(const std::string&)>& find_shipped)
      : find_shipped_(find_shipped) {
    result_.changes = std::move(changes);
    result_.tree = Tree(Tree::Map{});
  }

  Composition run(const std::string& path) && {
    search_folders_.push_back(fs::path(path).parent_path());
    result_.is_launcher_tree = has_group(path, kTraining);
    add_file(path, {});
    return std::move(result_);
  }

 private:
  void add_file(const std::string& path, const Place& place) {
    std::error_code failed;
    const fs::path resolved = fs::weakly_canonical(path, failed);
    const std::string identity = failed ? path : resolved.string();
    if (std::ranges::find(open_, identity) != open_.end())
      throw UserError("{}:1: is built on itself: {} -> {}", path, fmt::join(open_, " -> "), identity);
    if (++files_ > kMaxFiles) throw UserError("{}:1: a recipe may be built from at most {} files", path, kMaxFiles);
    open_.push_back(identity);
    Tree own = read_yaml_file(path);
    if (!own.is_map()) throw UserError("{}:1: a recipe must be a map of keys such as trainer: and model:", path);
    if (is_litgpt_recipe(own)) own = from_litgpt(std::move(own), find_shipped_(kLitgptModels));
    rename_aliases(own);
    for (const std::string& base : bases_of(own, path)) add_file(base, place);
    add_search_folders(own);
    std::vector<DefaultsItem> items = read_defaults_list(own);
    if (open_.size() == 1) append_chosen_groups(items);
    own.remove("extends");
    own.remove("defaults");
    for (const DefaultsItem& item : items)
      if (item.kind == DefaultsItem::Kind::override_group && !item.names.empty())
        overridden_.emplace_back(item.choice_key(), item.names);
    for (const DefaultsItem& item : items) {
      if (item.kind == DefaultsItem::Kind::self)
        merge_at(place.package, own);
      else if (item.kind != DefaultsItem::Kind::override_group)
        add_item(item, place);
    }
    open_.pop_back();
  }

  void merge_at(const std::string& package, Tree own) {
    if (package.empty()) return result_.tree.merge(std::move(own));
    if (result_.tree.find(package) == nullptr) result_.tree.set(package, Tree(Tree::Map{}));
    result_.tree.find(package)->merge(std::move(own));
  }

  void add_item(const DefaultsItem& item, const Place& parent) {
    if (item.kind == DefaultsItem::Kind::file) {
      const std::string file = join_folder(parent.group, item.names[0]);
      return add_found(item, file, {fs::path(file).parent_path().string(), package_of(item, parent, "")});
    }
    if (item.group.starts_with("hydra/")) return;
    const std::vector<std::string> names = chosen_names(item, absolute_choice_key(item, parent));
    result_.choices.emplace_back(item.choice_key(), names.empty() ? "null" : fmt::format("{}", fmt::join(names, ",")));
    // In a launcher tree only the training group is a recipe.
    if (result_.is_launcher_tree && open_.size() == 1 && item.group != kTraining) return;
    const std::string group = join_folder(parent.group, item.group);
    for (const std::string& name : names)
      add_found(item, join_folder(group, name), {group, package_of(item, parent, as_package(item.group))});
  }

  // Hydra's key of an item in a file that is itself in a group: training/tp_overlap@training.model.cfg.
  static std::string absolute_choice_key(const DefaultsItem& item, const Place& parent) {
    const std::string group = join_folder(parent.group, item.group);
    return item.package.empty() ? group : group + "@" + package_of(item, parent, as_package(item.group));
  }

  static std::string package_of(const DefaultsItem& item, const Place& parent, const std::string& usual) {
    if (item.package == "_global_") return {};
    if (item.package == "_here_") return parent.package;
    std::string below = item.package.empty() || item.package == "_group_" ? usual : item.package;
    if (below.starts_with('.')) below.erase(0, 1);
    if (parent.package.empty() || below.empty()) return parent.package + below;
    return join_path(parent.package, below);
  }

  void add_found(const DefaultsItem& item, const std::string& file, const Place& place) {
    for (const fs::path& folder : search_folders_)
      for (const std::string& candidate : {file + ".yaml", file})
        if (is_file(folder / candidate)) return add_group_file((folder / candidate).string(), place);
    if (item.optional) return;
    std::vector<std::string> folders;
    for (const fs::path& folder : search_folders_) folders.push_back(folder.empty() ? "." : folder.string());
    throw UserError("{}defaults: there is no {}.yaml in {}{}", position(item.origin), file, fmt::join(folders, ", "),
                    did_you_mean(file, files_beside(file)));
  }

  void add_group_file(const std::string& path, Place place) {
    if (const auto package = package_directive(path); package && *package != "_group_")
      place.package = *package == "_global_" ? std::string{} : *package;
    add_file(path, place);
  }

  static std::string position(const Origin& origin) {
    return origin.file && origin.line > 0 ? fmt::format("{}:{}: ", *origin.file, origin.line) : std::string{};
  }

  // The files that could have been named instead.
  std::vector<std::string> files_beside(const std::string& file) const {
    std::vector<std::string> names;
    const fs::path group = fs::path(file).parent_path();
    std::error_code failed;
    for (const fs::path& folder : search_folders_)
      for (const fs::directory_entry& entry : fs::directory_iterator(folder / group, failed))
        if (entry.path().extension() == ".yaml") names.push_back((group / entry.path().stem()).string());
    return names;
  }

  // The user's choice takes precedence, then an `override`, then the list itself.
  std::vector<std::string> chosen_names(const DefaultsItem& item, const std::string& absolute_key) {
    auto change = take_change(absolute_key);
    if (!change) change = take_change(item.choice_key());
    if (change) {
      if (change->action == Override::Action::remove || change->value.is_null()) return {};
      if (change->value.is_list()) {
        std::vector<std::string> names;
        for (const Tree& name : change->value.list()) names.push_back(name.text());
        return names;
      }
      if (change->value.is_map())
        throw UserError("{}: {} is a choice of files; give a name such as {}={}", change->text, item.group, item.group,
                        item.names.empty() ? "NAME" : item.names[0]);
      return {change->value.text()};
    }
    for (const auto& [key, names] : overridden_)
      if (key == item.choice_key() || key == absolute_key) return names;
    return item.names;
  }

  std::optional<Override> take_change(const std::string& key) {
    std::optional<Override> taken;
    std::erase_if(result_.changes, [&](const Override& change) {
      if (change.key != key) return false;
      taken = change;
      return true;
    });
    return taken;
  }

  // +group=name adds a file to the list, if there is such a folder.
  void append_chosen_groups(std::vector<DefaultsItem>& items) {
    std::erase_if(result_.changes, [&](const Override& change) {
      const bool adds = change.action == Override::Action::add || change.action == Override::Action::set_or_add;
      const bool in_list = std::ranges::find(items, change.key, &DefaultsItem::choice_key) != items.end();
      const fs::path folder = search_folders_.front() / change.key;
      std::error_code ignored;
      if (!adds || in_list || !change.value.is_string() || !fs::is_directory(folder, ignored)) return false;
      items.push_back({.kind = DefaultsItem::Kind::group, .group = change.key, .names = {change.value.string()}});
      return true;
    });
  }

  // Only folders of this machine; Python packages are not searched.
  void add_search_folders(const Tree& own) {
    const Tree* folders = own.find("hydra.searchpath");
    if (folders == nullptr || !folders->is_list()) return;
    constexpr std::string_view kScheme = "file://";
    for (const Tree& folder : folders->list())
      if (folder.is_string() && folder.string().starts_with(kScheme))
        search_folders_.emplace_back(folder.string().substr(kScheme.size()));
  }

  std::vector<std::string> bases_of(const Tree& recipe, const std::string& path) const {
    const Tree* extends = recipe.find("extends");
    if (extends == nullptr || extends->is_null()) return {};
    std::vector<std::string> bases;
    const auto add = [&](const Tree& base) {
      if (!base.is_string())
        throw UserError("{}: extends={}: expected the name of a recipe or a list of them", base.where(), base.brief());
      bases.push_back(find_base(base, path));
    };
    if (extends->is_list())
      std::ranges::for_each(extends->list(), add);
    else
      add(*extends);
    return bases;
  }

  std::string find_base(const Tree& base, const std::string& path) const {
    const std::string& name = base.string();
    const fs::path folder = fs::path(path).parent_path();
    for (const std::string& candidate : {name, name + ".yaml"})
      if (is_file(folder / candidate)) return (folder / candidate).string();
    if (std::string shipped = find_shipped_(name); !shipped.empty()) return shipped;
    throw UserError("{}: extends={}: no such recipe beside this file or among the shipped ones", base.where(), base.brief());
  }

  const std::function<std::string(const std::string&)>& find_shipped_;
  Composition result_;
  std::vector<std::pair<std::string, std::vector<std::string>>> overridden_;
  std::vector<fs::path> search_folders_;
  std::vector<std::string> open_;  // the files being read; each is named by the one before
  int files_ = 0;
};

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_directory(path, ignored);
}

std::string Composition::choice(const std::string& group) const {
  const auto found = std::ranges::find(choices, group, &std::pair<std::string, std::string>::first);
  return found == choices.end() ? std::string{} : found->second;
}

Composition compose(const std::string& path, std::vector<Override> changes,
                    const std::function<std::string(const std::string&)>& find_shipped) {
  return Composer(std::move(changes), find_shipped).run(path);
}

bool has_group(const std::string& path, const std::string& group) {
  const Tree recipe = read_yaml_file(path);
  if (!recipe.is_map()) return false;
  return std::ranges::any_of(read_defaults_list(recipe), [&](const DefaultsItem& item) { return item.group == group; });
}

}  // namespace trireme
