// Tar archives: the ustar format with the long names and sizes of GNU tar and of pax.
#pragma once

#include <map>
#include <string>

#include "base/mapped_file.h"
#include "convert/torch/byte_view.h"

namespace trireme {

// The regular files of an archive by name, without a leading "./". Failure if it is damaged, UserError for links and devices.
std::map<std::string, std::span<const std::byte>> read_tar(const ByteView& archive);

bool is_gzip(const ByteView& file);

// Unpacks a file compressed with gzip to a temporary file, which is gone when the mapping is. UserError if the folder of
// temporary files has no room; Failure if the file is damaged.
MappedFile unpack_gzip(const ByteView& file);

}  // namespace trireme
