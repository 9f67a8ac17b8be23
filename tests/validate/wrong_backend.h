// Backends that compute wrong, for tests of what must find them.
#pragma once

#include "backend/forwarding_backend.h"

namespace trireme {

// One element of every GEMM is off by one.
class WrongGemm final : public ForwardingBackend {
 public:
  explicit WrongGemm(Backend& inner) : ForwardingBackend(inner) {}
  using ForwardingBackend::run;
  void run(Stream stream, const LinearForward& op) override {
    inner_.run(stream, op);
    op.out.tensor.span<float>()[static_cast<size_t>(op.out.tensor.count() / 3)] += 1;
  }
};

// One number of every copy is lost.
class WrongCopy final : public ForwardingBackend {
 public:
  explicit WrongCopy(Backend& inner) : ForwardingBackend(inner) {}
  using ForwardingBackend::run;
  void run(Stream stream, const Copy& op) override {
    inner_.run(stream, op);
    op.to.span<float>()[static_cast<size_t>(op.to.count() - 1)] = 0.5F;
  }
};

// Every GEMM takes eight times as long: far more than what other programs take from a rank.
class SlowGemm final : public ForwardingBackend {
 public:
  explicit SlowGemm(Backend& inner) : ForwardingBackend(inner) {}
  using ForwardingBackend::run;
  void run(Stream stream, const LinearForward& op) override {
    for (int i = 0; i < 8; ++i) inner_.run(stream, op);
  }
};

}  // namespace trireme
