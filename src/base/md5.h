// MD5, for cache file names that other programs derive from it. Not secure.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

std::string md5_hex(std::string_view text);  // 32 hexadecimal digits

}  // namespace trireme
