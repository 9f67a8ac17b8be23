// MD5, for names of cache files that other programs choose by it. Not for anything that must resist an attacker.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

std::string md5_hex(std::string_view text);  // 32 hexadecimal digits

}  // namespace trireme
