// What the end of a document changes inside a sample.
#pragma once

#include <cstdint>

namespace trireme {

// What the end-of-document token changes, as in Megatron. The token belongs to the document that it ends.
struct DocumentRules {
  int32_t end_token = -1;
  bool resets_positions = false;  // positions restart at the first token of each document
  bool resets_attention = false;  // each row knows where its document starts
  bool masks_loss = false;        // the target of the end token is masked

  bool needs_starts() const { return resets_positions || resets_attention; }
};

}  // namespace trireme
