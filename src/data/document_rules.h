// What the end of a document inside a sample changes.
#pragma once

#include <cstdint>

namespace trireme {

// What the token that ends a document changes, as in Megatron: the token belongs to the document it ends.
struct DocumentRules {
  int32_t end_token = -1;
  bool resets_positions = false;  // positions count from the first token of the document
  bool resets_attention = false;  // a row says where its document starts
  bool masks_loss = false;        // the target of the end token is masked

  bool needs_starts() const { return resets_positions || resets_attention; }
};

}  // namespace trireme
