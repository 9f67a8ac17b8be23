// Runs an op on the reference backend and on others on the same operands, and compares everything it writes: the cpu backend with
// every instruction set of this machine and several numbers of threads, or a GPU. Operands are found by the op's visit().
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "support/host_tensors.h"
#include "tensor/fp8.h"

namespace trireme {

// How far an output may be from the reference. All test values are drawn from bounded ranges, so bounds can be stated.
//
// - The result is rounded to its dtype; two results that round differently are one unit apart: `roundings` units of the value,
// more
//   where an intermediate had been rounded to the same dtype before.
// - A sum of n terms up to size s in f32 makes n rounding errors of 2^-24 of the running sum, which is about s sqrt(n) for terms
// of
//   either sign; they add up like sqrt(n) as well: n * 2^-24 * s. Four times that is allowed. Exponentials and divisions are
//   within a few units and count as a few terms.
// - `carried`: the size of intermediates in the activation dtype on which the output depends, times that dependence; each may
//   have rounded differently, by one unit.
struct Tolerance {
  double terms = 1;
  double size = 1;
  double carried = 0;
  double roundings = 1;
  double unit = 0x1p-24;    // of the sum: 2^-53 where it is made in double
  bool same_zeros = false;  // where one is zero the other is too: dropout and masks
  bool equal = false;       // bit for bit
};
using Tolerances = std::map<std::string, Tolerance>;

// The distance of neighbouring numbers, relative to them: at most.
inline double unit_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    case DType::f32:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}

inline double element(const Tensor& tensor, const std::vector<uint8_t>& bytes, int64_t i) {
  switch (tensor.dtype) {
    case DType::f32:
      return reinterpret_cast<const float*>(bytes.data())[i];
    case DType::bf16:
      return to_float(reinterpret_cast<const bf16*>(bytes.data())[i]);
    case DType::f16:
      return to_float(reinterpret_cast<const f16*>(bytes.data())[i]);
    case DType::f64:
      return reinterpret_cast<const double*>(bytes.data())[i];
    case DType::f8e4m3:
    case DType::f8e5m2:
      return from_fp8(tensor.dtype, bytes[static_cast<size_t>(i)]);
    default:
      CHECK(!"only floating point is compared");
  }
  return 0;
}

// The operands of an op, by visit().
struct OperandList {
  struct Operand {
    std::string name;
    Tensor tensor;
    bool written;
  };
  std::vector<Operand> all;

  void in(const char* name, const Tensor& tensor) { add(name, tensor, false); }
  void out(const char* name, const Tensor& tensor) { add(name, tensor, true); }
  void update(const char* name, const Tensor& tensor) { add(name, tensor, true); }
  void scratch(const char*, const Tensor&) {}
  void in_place(const Tensor&, const Tensor&) {}

  // An input that is also an output (aliasing) is compared as the output.
  bool only_read(const Operand& operand) const {
    for (const Operand& other : all)
      if (other.written && other.tensor.data == operand.tensor.data) return false;
    return true;
  }

 private:
  void add(const char* name, const Tensor& tensor, bool written) {
    if (tensor) all.push_back({name, tensor, written});
  }
};

// The bytes of all operands at one moment.
class Snapshot {
 public:
  explicit Snapshot(const OperandList& operands) {
    for (const auto& operand : operands.all) {
      const auto* begin = static_cast<const uint8_t*>(operand.tensor.data);
      bytes_.emplace_back(begin, begin + operand.tensor.bytes());
    }
  }
  void restore(const OperandList& operands) const {
    for (size_t i = 0; i < bytes_.size(); ++i) std::memcpy(operands.all[i].tensor.data, bytes_[i].data(), bytes_[i].size());
  }
  const std::vector<uint8_t>& operator[](size_t i) const { return bytes_[i]; }

 private:
  std::vector<std::vector<uint8_t>> bytes_;
};

inline void compare_operand(const OperandList::Operand& operand, DType act, const Tolerance& tolerance,
                            const std::vector<uint8_t>& got, const std::vector<uint8_t>& expected) {
  for (int64_t i = 0; i < operand.tensor.count(); ++i) {
    const double a = element(operand.tensor, got, i), b = element(operand.tensor, expected, i);
    const double allowed = tolerance.equal
                               ? 0
                               : tolerance.roundings * unit_of(operand.tensor.dtype) * std::abs(b) +
                                     unit_of(act) * tolerance.carried + 4 * tolerance.terms * tolerance.unit * tolerance.size;
    const bool close = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed;
    const bool zeros = !tolerance.same_zeros || (a == 0) == (b == 0);
    if (close && zeros) continue;
    ADD_FAILURE() << operand.name << operand.tensor.shape.text() << "[" << i << "] is " << a << ", the reference has " << b
                  << "; allowed " << allowed << (zeros ? "" : " and the same zeros");
    return;  // one line per operand says enough
  }
}

// A backend that is compared with the reference. Those of one group must agree bit for bit: they differ in threads only.
struct Contestant {
  std::string name;
  std::string group;
  std::unique_ptr<Backend> backend;
  Device device = Device::host;
  // What it is allowed beyond a case's tolerance, by op and operand.
  std::function<Tolerance(std::string_view op, const std::string& operand, Tolerance)> relax = nullptr;
};

// cuDNN draws the dropout of attention in bf16 itself: a test of its own looks at that.
template <class Op>
bool draws_differ(const Contestant& contestant, const Op& op, DType act) {
  if constexpr (std::is_same_v<Op, AttentionForward> || std::is_same_v<Op, AttentionBackward>)
    return contestant.device == Device::cuda && act == DType::bf16 && op.dropout.active();
  return false;
}

inline bool computes(const Contestant& contestant, const OperandList& operands) {
  return contestant.backend->has_f16() ||
         std::ranges::none_of(operands.all, [](const auto& operand) { return operand.tensor.dtype == DType::f16; });
}

std::vector<Contestant> cpu_contestants();

class Parity {
 public:
  explicit Parity(std::vector<Contestant> contestants = cpu_contestants()) : contestants_(std::move(contestants)) {}

  bool has_gpu() const {
    return std::ranges::any_of(contestants_, [](const Contestant& each) { return each.device == Device::cuda; });
  }

  static std::vector<cpu::Isa> isas() {
    using cpu::Isa;
    std::vector<Isa> found;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::amx_emulated})
      if (cpu::has_isa(isa)) found.push_back(isa);
    return found;
  }

  // `act` is the dtype of the activations; `what` describes the case in messages. Outputs without a tolerance must be equal.
  template <class Op>
  void expect(const Op& op, DType act, const Tolerances& tolerances, const std::string& what) {
    ++cases_[Op::kName];
    OperandList operands;
    op.visit(operands);
    const Snapshot before(operands);
    reference_.run(kCompute, op);
    const Snapshot expected(operands);
    std::map<std::string, Snapshot> first;  // of each group
    for (const Contestant& contestant : contestants_) {
      if (draws_differ(contestant, op, act) || !computes(contestant, operands)) continue;
      SCOPED_TRACE(fmt::format("{} {} {}, {}", Op::kName, name_of(act), what, contestant.name));
      before.restore(operands);
      if (contestant.device == Device::host)
        run(*contestant.backend, op);
      else
        run_on_device(*contestant.backend, op);
      const Snapshot got(operands);
      const Snapshot& same = first.try_emplace(contestant.group, got).first->second;
      for (size_t i = 0; i < operands.all.size(); ++i) {
        const auto& operand = operands.all[i];
        if (operands.only_read(operand)) {
          EXPECT_EQ(got[i], before[i]) << operand.name << " is only read";
        }
        if (!operand.written) continue;
        const auto found = tolerances.find(operand.name);
        Tolerance tolerance = found == tolerances.end() ? Tolerance{.equal = true} : found->second;
        if (contestant.relax) tolerance = contestant.relax(Op::kName, operand.name, tolerance);
        compare_operand(operand, act, tolerance, got[i], expected[i]);
        EXPECT_EQ(got[i], same[i]) << operand.name << " depends on the number of threads";
      }
    }
    before.restore(operands);
  }

  ReferenceBackend& reference() { return reference_; }
  int cases(const char* op) { return cases_[op]; }

 private:
  template <class Op>
  static void run(Backend& backend, const Op& op) {
    HostTensors scratch;
    backend.set_scratch(kCompute, scratch.bytes({backend.scratch_bytes(op)}, DType::u8, Arena::kAlignment));
    backend.run(kCompute, op);
    scratch.expect_untouched_outside();
  }

  // The operands travel to the device, and after the op all of them come back.
  template <class Op>
  static void run_on_device(Backend& backend, Op op) {
    const Memory scratch = backend.allocate(backend.scratch_bytes(op));
    backend.set_scratch(kCompute, {scratch.block.get(), DType::u8, {backend.scratch_bytes(op)}, scratch.device});
    OnDevice device{backend, {}};
    op.visit(device);
    if constexpr (requires { op.dropout2; }) device.in("row_keys", op.dropout2.row_keys);
    backend.run(kCompute, op);
    for (const auto& [host, copy] : device.copies) backend.download(kCompute, copy.tensor, host);
    backend.synchronize(backend.record(kCompute, "done"));
  }

  // Replaces the operands of an op that visit() names by copies on the device.
  struct OnDevice {
    struct CopyOnDevice {
      Memory memory;
      Tensor tensor;
    };
    Backend& backend;
    std::map<void*, CopyOnDevice> copies;  // by the address on the host; operands that share memory share the copy

    void in(const char*, const Tensor& tensor) { move(const_cast<Tensor&>(tensor)); }
    void out(const char*, const Tensor& tensor) { move(const_cast<Tensor&>(tensor)); }
    void update(const char*, const Tensor& tensor) { move(const_cast<Tensor&>(tensor)); }
    void scratch(const char*, const Tensor& tensor) { move(const_cast<Tensor&>(tensor)); }
    void in_place(const Tensor&, const Tensor&) {}
    void move(Tensor& tensor) {
      if (!tensor || tensor.device == Device::cuda) return;
      CopyOnDevice& copy = copies[tensor.data];
      if (!copy.memory.block) {
        copy.memory = backend.allocate(tensor.bytes());
        copy.tensor = tensor;
        copy.tensor.data = copy.memory.block.get();
        backend.upload(kCompute, tensor.data, copy.tensor);
      }
      tensor.data = copy.tensor.data;
      tensor.device = Device::cuda;
    }
  };

  ReferenceBackend reference_;
  std::vector<Contestant> contestants_;
  std::map<std::string, int> cases_;
};

// Every instruction set of this machine, with several numbers of threads.
inline std::vector<Contestant> cpu_contestants() {
  std::vector<Contestant> made;
  for (const cpu::Isa isa : Parity::isas())
    for (const int threads : {1, 3})
      made.push_back({fmt::format("{}, {} threads", cpu::name_of(isa), threads), cpu::name_of(isa),
                      std::make_unique<CpuBackend>(threads, isa)});
  return made;
}

}  // namespace trireme
