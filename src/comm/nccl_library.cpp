#include "comm/nccl_library.h"

#include <dlfcn.h>
#include <link.h>

#include <climits>
#include <cstdlib>

#include "base/error.h"

namespace trireme {

// The layout of 2.18. Newer versions recognise it by its size and version and fill in the rest.
struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef, version = 21800;
  int blocking = 0;
  int cga_cluster_size = kUndefined, min_ctas = kUndefined, max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

namespace {

constexpr int kOldest = 21800;

std::string version_text_of(int version) { return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100); }

void* open_library() {
  if (const char* file = std::getenv("TRIREME_NCCL"); file != nullptr && *file != '\0') {
    if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    throw UserError("TRIREME_NCCL={} cannot be loaded: {}; name a libnccl.so.2, or unset it to search the usual places", file,
                    dlerror());
  }
  for (const char* place : {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2"})
    if (void* library = dlopen(place, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  throw UserError(
      "several GPUs need NCCL, and libnccl.so.2 was not found; install it (libnccl2), or name its folder in LD_LIBRARY_PATH");
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "libnccl.so.2";
}

}  // namespace

NcclLibrary::NcclLibrary() {
  void* library = open_library();
  path_ = path_of(library);
  const auto find = [&](auto& function, const char* name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw UserError("{} has no {}; NCCL 2.18 or later is needed", path_, name);
  };
  find(get_version_, "ncclGetVersion");
  if (get_version_(&version_) != NcclResult::success || version_ < kOldest)
    throw UserError("{} is NCCL {}; 2.18 or later is needed", path_, version_text_of(version_));
  find(error_string_, "ncclGetErrorString");
  find(last_error_, "ncclGetLastError");
  find(connect_, "ncclCommInitRankConfig");
  find(unique_id, "ncclGetUniqueId");
  find(async_error, "ncclCommGetAsyncError");
  find(finalize, "ncclCommFinalize");
  find(destroy, "ncclCommDestroy");
  find(abort, "ncclCommAbort");
  find(group_start, "ncclGroupStart");
  find(group_end, "ncclGroupEnd");
  find(all_reduce, "ncclAllReduce");
  find(reduce_scatter, "ncclReduceScatter");
  find(all_gather, "ncclAllGather");
  find(broadcast, "ncclBroadcast");
  find(send, "ncclSend");
  find(receive, "ncclRecv");
}

const NcclLibrary& NcclLibrary::load() {
  static const NcclLibrary library;
  return library;
}

std::string NcclLibrary::version_text() const { return version_text_of(version_); }
std::string NcclLibrary::name() const { return fmt::format("NCCL {} ({})", version_text(), path_); }

std::string NcclLibrary::result_text(NcclResult result, NcclCommunicator* communicator) const {
  std::string text = error_string_(result);
  const char* details = last_error_(communicator);
  if (details != nullptr && *details != '\0') text += fmt::format(" ({})", details);
  return text;
}

NcclResult NcclLibrary::begin_connecting(NcclCommunicator** communicator, int size, const NcclUniqueId& id, int rank) const {
  NcclConfig config;
  return connect_(communicator, size, id, rank, &config);
}

}  // namespace trireme
