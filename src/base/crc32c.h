// CRC-32C (Castagnoli): the checksum of checkpoints and of TensorBoard event files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme {

// `seed` is the checksum of the preceding bytes, so crc32c(b, crc32c(a)) is the checksum of a followed by b. Uses the SSE4.2
// instruction if the processor has it.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

// The same without the instruction.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t seed = 0);

}  // namespace trireme
