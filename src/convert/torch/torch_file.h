// A file of torch.save, read without torch: a ZIP archive of one pickle and its storages, or the format before torch 1.6.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "convert/torch/pickle.h"
#include "convert/torch/torch_tensor.h"

namespace trireme {

class TorchFile {
 public:
  // Reads the table of contents and the pickle, and no tensors.
  explicit TorchFile(const ByteView& file);

  const PickleValue& root() const { return pickle_->root(); }
  const std::string& where() const { return where_; }

  // The tensor that a value is; no value if it is something else. Failure if it does not fit its storage.
  std::optional<TorchTensor> tensor(const PickleValue& value) const;

 private:
  void open_archive(const ByteView& file);
  void open_old_format(const ByteView& file);
  std::shared_ptr<TorchStorage> storage(const PickleValue& persistent, TorchTypeFacts& type) const;
  TorchTensor view(const PickleValue& object) const;
  const PickleValue* storage_id(const PickleValue& persistent) const;

  std::string where_;
  std::unique_ptr<Pickle> pickle_;
  std::map<std::string, std::shared_ptr<TorchStorage>, std::less<>> storages_;  // by key
};

}  // namespace trireme
