#include "launch/local/container_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/subprocess.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kInfiniband = "/dev/infiniband";
constexpr const char* kSharedMemory = "/dev/shm";

void append(Words& words, std::initializer_list<std::string> more) { words.insert(words.end(), more.begin(), more.end()); }

// Pinned memory of NICs and GPUs needs an unlimited memlock.
Words limit_words(const std::string& runtime, const ContainerDevices& devices) {
  if (runtime == "podman" && !devices.can_raise_limits) return {"--ulimit=host"};
  return {"--ulimit=memlock=-1", "--ulimit=stack=67108864"};
}

// stdin stays open, because its end tells the ranks in the container that their supervisor is gone.
Words docker_like_words(const Container& container, const std::string& name, const std::vector<EnvironmentVariable>& environment,
                        const ContainerDevices& devices) {
  Words words = {container.runtime, "run", "--rm", "--interactive", "--name", name, "--network=host", "--ipc=host"};
  for (const std::string& word : limit_words(container.runtime, devices)) words.push_back(word);
  if (devices.gpus > 0)
    append(words, container.runtime == "docker" ? std::initializer_list<std::string>{"--gpus", "all"}
                                                : std::initializer_list<std::string>{"--device", "nvidia.com/gpu=all"});
  if (devices.has_infiniband) append(words, {"--device", kInfiniband});
  for (const Mount& mount : container.mounts) append(words, {"--volume", fmt::format("{}:{}", mount.source, mount.destination)});
  for (const EnvironmentVariable& variable : environment)
    append(words, {"--env", fmt::format("{}={}", variable.name, variable.value)});
  words.push_back(container.image);
  return words;
}

Words ctr_words(const Container& container, const std::string& name, const std::vector<EnvironmentVariable>& environment,
                const ContainerDevices& devices) {
  Words words = {"ctr", "run", "--rm", "--net-host"};
  for (int64_t gpu = 0; gpu < devices.gpus; ++gpu) append(words, {"--gpus", fmt::format("{}", gpu)});
  if (devices.has_infiniband) append(words, {"--device", kInfiniband});
  const auto mount_words = [&](const std::string& source, const std::string& destination) {
    append(words, {"--mount", fmt::format("type=bind,src={},dst={},options=rbind:rw", source, destination)});
  };
  mount_words(kSharedMemory, kSharedMemory);
  for (const Mount& mount : container.mounts) mount_words(mount.source, mount.destination);
  for (const EnvironmentVariable& variable : environment)
    append(words, {"--env", fmt::format("{}={}", variable.name, variable.value)});
  append(words, {container.image, name});
  return words;
}

// enroot shares network, shared memory and processes with this machine anyway.
Words enroot_words(const Container& container, const std::vector<EnvironmentVariable>& environment,
                   const ContainerDevices& devices) {
  Words words = {"enroot", "start", "--rw"};
  if (devices.gpus > 0)
    append(words, {"--env", "NVIDIA_VISIBLE_DEVICES=all", "--env", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"});
  if (devices.has_infiniband) append(words, {"--mount", fmt::format("{}:{}", kInfiniband, kInfiniband)});
  for (const Mount& mount : container.mounts) append(words, {"--mount", fmt::format("{}:{}", mount.source, mount.destination)});
  for (const EnvironmentVariable& variable : environment)
    append(words, {"--env", fmt::format("{}={}", variable.name, variable.value)});
  words.push_back(container.image);
  return words;
}

bool is_squashfs(const std::string& image) { return image.ends_with(".sqsh") || image.ends_with(".squashfs"); }

void require_image_form(const Container& container) {
  const std::string& image = container.image;
  const bool has_blank = image.find_first_of(" \t\n") != std::string::npos;
  if (image.empty() || image.starts_with('-') || has_blank)
    throw UserError("--container {} \"{}\": this cannot be an image", container.runtime, image);
  if (container.runtime == "enroot") {
    if (image.find("://") != std::string::npos)
      throw UserError("--container enroot {}: enroot starts files; make one with: enroot import --output image.sqsh {}", image,
                      image);
    if (!is_squashfs(image) || !(image.starts_with('/') || image.starts_with("./") || image.starts_with("../")))
      throw UserError("--container enroot {}: use the path of a squashfs file, as in /images/trireme.sqsh or ./trireme.sqsh",
                      image);
    return;
  }
  if (is_squashfs(image))
    throw UserError("--container {} {}: squashfs files are for enroot; use --container enroot {}, or the name of an image",
                    container.runtime, image, image);
  const std::string_view first = std::string_view(image).substr(0, image.find('/'));
  if (container.runtime == "ctr" &&
      (first.size() == image.size() || (first.find('.') == first.npos && first.find(':') == first.npos && first != "localhost")))
    throw UserError("--container ctr {}: ctr needs the whole name, with its registry: docker.io/library/{}", image, image);
}

}  // namespace

ContainerStart container_start(const Container& container, const std::string& name,
                               const std::vector<EnvironmentVariable>& environment, const ContainerDevices& devices) {
  const std::string& runtime = container.runtime;
  if (runtime != "docker" && runtime != "podman" && runtime != "ctr" && runtime != "enroot")
    throw UserError("--container {}: use docker, podman, ctr or enroot", runtime);
  require_image_form(container);
  if (runtime == "enroot") return {enroot_words(container, environment, devices), {}};
  if (runtime == "ctr")
    return {ctr_words(container, name, environment, devices), {"ctr", "task", "kill", "--signal", "SIGKILL", name}};
  return {docker_like_words(container, name, environment, devices), {runtime, "rm", "--force", name}};
}

ContainerDevices container_devices(int64_t gpus) {
  constexpr int kMayRaise = 24;  // CAP_SYS_RESOURCE, in the mask of /proc/self/status
  std::ifstream status("/proc/self/status");
  uint64_t capabilities = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:")) capabilities = std::strtoull(line.c_str() + std::string_view("CapEff:").size(), nullptr, 16);
  std::error_code failed;
  return {
      .gpus = gpus, .has_infiniband = fs::exists(kInfiniband, failed), .can_raise_limits = (capabilities >> kMayRaise & 1) != 0};
}

void require_container(const Container& container) {
  if (find_program(container.runtime).empty())
    throw UserError("--container {}: {} is not on PATH; install it or leave out --container", container.runtime,
                    container.runtime);
  std::error_code failed;
  if (container.runtime == "enroot" && !fs::is_regular_file(container.image, failed))
    throw UserError("--container enroot {}: there is no such file", container.image);
}

}  // namespace trireme
