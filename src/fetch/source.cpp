#include "fetch/source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "fetch/transfer_error.h"

namespace trireme {

RemoteFile local_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw TransferError(Remedy::other_source, std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) throw TransferError(Remedy::other_source, "it is not a file");
  return {.size = status.st_size,
          .identity = fmt::format("{} {}.{:09} {}", status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size),
          .modified = status.st_mtim.tv_sec,
          .ranges = true};
}

RemoteFile SourceReader::probe(const Location& location) {
  return location.scheme == Scheme::file ? local_file(location.path) : http().probe(http_address(location));
}

void SourceReader::read(const Location& location, int64_t begin, int64_t end, const std::string& identity,
                        const std::function<void(const RemoteFile&)>& answered,
                        const std::function<void(std::span<const std::byte>)>& sink) {
  if (location.scheme != Scheme::file) return http().read(http_address(location), begin, end, identity, answered, sink);
  const RemoteFile now = local_file(location.path);
  if (!identity.empty() && now.identity != identity) throw TransferError(Remedy::restart, "the file changed at its place");
  answered(now);
  const File file = File::open(location.path);
  const int64_t stop = end < 0 ? now.size : end;
  std::vector<std::byte> buffer(1 << 20);
  while (begin < stop) {
    if (limits_.stop != nullptr && *limits_.stop) throw TransferError(Remedy::none, "stopped");
    const auto piece =
        std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(stop - begin, narrow<int64_t>(buffer.size()))));
    file.read_at(begin, piece);
    sink(piece);
    begin += narrow<int64_t>(piece.size());
  }
}

HttpClient& SourceReader::http() {
  if (!http_) http_ = std::make_unique<HttpClient>(limits_);
  return *http_;
}

}  // namespace trireme
