// NCCL, loaded at run time. Network plugins pin its version, so the program accepts any version from 2.18 on and is built without
// NCCL's header. The declarations here are part of its interface and have not changed since 2.18.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace trireme {

struct NcclUniqueId {
  std::array<char, 128> bytes{};
};
struct NcclCommunicator;  // defined by NCCL
using NcclStream = void*;

enum class NcclResult : int { success = 0, in_progress = 7 };  // any other value is an error, which result_text names
enum class NcclType : int { u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class NcclReduce : int { sum = 0, max = 2 };

struct NcclConfig;  // defined in nccl_library.cpp

class NcclLibrary {
 public:
  // Loads the file that TRIREME_NCCL names, else that of the first of the usual places that has one. UserError if it cannot be
  // loaded, none has one, or it is too old.
  static const NcclLibrary& load();

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 22703 for 2.27.3
  std::string version_text() const;
  std::string name() const;  // "NCCL 2.27.3 (/usr/lib/x86_64-linux-gnu/libnccl.so.2)"

  // Describes a failed call: NCCL's name of the result and, where NCCL knows it, the cause.
  std::string result_text(NcclResult result, NcclCommunicator* communicator) const;

  // Creates a communicator that never blocks the host. Calls return at once, with `in_progress` until `async_error` says
  // otherwise.
  NcclResult begin_connecting(NcclCommunicator** communicator, int size, const NcclUniqueId& id, int rank) const;

  NcclResult (*unique_id)(NcclUniqueId*) = nullptr;
  NcclResult (*async_error)(NcclCommunicator*, NcclResult*) = nullptr;
  NcclResult (*finalize)(NcclCommunicator*) = nullptr;
  NcclResult (*destroy)(NcclCommunicator*) = nullptr;
  NcclResult (*abort)(NcclCommunicator*) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*all_reduce)(const void* from, void* to, size_t count, NcclType, NcclReduce, NcclCommunicator*,
                           NcclStream) = nullptr;
  NcclResult (*reduce_scatter)(const void* from, void* to, size_t count_of_to, NcclType, NcclReduce, NcclCommunicator*,
                               NcclStream) = nullptr;
  NcclResult (*all_gather)(const void* from, void* to, size_t count_of_from, NcclType, NcclCommunicator*, NcclStream) = nullptr;
  NcclResult (*broadcast)(const void* from, void* to, size_t count, NcclType, int root, NcclCommunicator*, NcclStream) = nullptr;
  NcclResult (*send)(const void* from, size_t count, NcclType, int to, NcclCommunicator*, NcclStream) = nullptr;
  NcclResult (*receive)(void* to, size_t count, NcclType, int from, NcclCommunicator*, NcclStream) = nullptr;

 private:
  NcclLibrary();

  std::string path_;
  int version_ = 0;
  NcclResult (*get_version_)(int*) = nullptr;
  const char* (*error_string_)(NcclResult) = nullptr;
  const char* (*last_error_)(NcclCommunicator*) = nullptr;
  NcclResult (*connect_)(NcclCommunicator**, int size, NcclUniqueId, int rank, NcclConfig*) = nullptr;
};

}  // namespace trireme
