#include "validate/device_probe.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/philox.h"
#include "comm/probe/probe_memory.h"
#include "tensor/dtype.h"

namespace trireme {
namespace {

bool has_own_memory(const Backend& backend) { return backend.device_memory().has_value(); }

Arena arena_on(Backend& backend, int64_t bytes) {
  return Arena("validate", bytes, [&](int64_t all) { return backend.allocate(all); });
}

// The scratch memory of a GEMM, kept as long as this lives.
class Scratch {
 public:
  Scratch(Backend& backend, const LinearForward& op)
      : bytes_(std::max<int64_t>(backend.scratch_bytes(op), 1)), arena_(arena_on(backend, round_up(bytes_, Arena::kAlignment))) {
    backend.set_scratch(kCompute, arena_.take({bytes_}, DType::u8));
  }

 private:
  int64_t bytes_;
  Arena arena_;
};

// ------------------------------------------------------------------------------------------------------------ exactness

constexpr int64_t kTerms = 256;  // of a sum that are not 0: bf16 holds every integer up to 256

// -1, 0 or 1; in every row and column of x one in `inner / kTerms` is not 0, so that no sum has more than kTerms terms.
int left_value(int64_t row, int64_t k, int64_t inner) {
  const int64_t stride = std::max<int64_t>(inner / kTerms, 1);
  if ((row + k) % stride != 0) return 0;
  return (philox(1, {static_cast<uint32_t>(row), static_cast<uint32_t>(k), 0, 0})[0] & 1) != 0 ? 1 : -1;
}
int right_value(int64_t row, int64_t k) {
  return (philox(2, {static_cast<uint32_t>(row), static_cast<uint32_t>(k), 0, 0})[0] & 1) != 0 ? 1 : -1;
}

// out * v = x * (weight^T * v) in integers, for every row and a few vectors of -1 and 1: an error in one element of a row always
// shows, and comparing costs far less than the GEMM.
class RowSums {
 public:
  explicit RowSums(int64_t n) : n_(n), left_(static_cast<size_t>(n * n)), right_(static_cast<size_t>(n * n)) {
    for (int64_t row = 0; row < n; ++row)
      for (int64_t k = 0; k < n; ++k) {
        left_[static_cast<size_t>(row * n + k)] = static_cast<float>(left_value(row, k, n));
        right_[static_cast<size_t>(row * n + k)] = static_cast<float>(right_value(row, k));
      }
    for (int vector = 0; vector < kVectors; ++vector) expected_.push_back(times_left(times_right(vector)));
  }

  float left(int64_t i) const { return left_[static_cast<size_t>(i)]; }
  float right(int64_t i) const { return right_[static_cast<size_t>(i)]; }

  int64_t wrong_rows(const std::vector<float>& out) const {
    int64_t wrong = 0;
    for (int64_t row = 0; row < n_; ++row) {
      bool is_wrong = false;
      for (int vector = 0; vector < kVectors; ++vector) {
        double sum = 0;
        for (int64_t j = 0; j < n_; ++j) sum += sign(vector, j) * out[static_cast<size_t>(row * n_ + j)];
        is_wrong |= sum != expected_[static_cast<size_t>(vector)][static_cast<size_t>(row)];  // NaN differs too
      }
      wrong += is_wrong ? 1 : 0;
    }
    return wrong;
  }

 private:
  static constexpr int kVectors = 3;
  static double sign(int vector, int64_t j) {
    return (philox(3, {static_cast<uint32_t>(vector), static_cast<uint32_t>(j / 32), 0, 0})[0] >> (j % 32) & 1) != 0 ? 1 : -1;
  }
  std::vector<double> times_right(int vector) const {
    std::vector<double> product(static_cast<size_t>(n_));
    for (int64_t j = 0; j < n_; ++j)
      for (int64_t k = 0; k < n_; ++k)
        product[static_cast<size_t>(k)] += sign(vector, j) * right_[static_cast<size_t>(j * n_ + k)];
    return product;
  }
  std::vector<double> times_left(const std::vector<double>& by) const {
    std::vector<double> product(static_cast<size_t>(n_));
    for (int64_t row = 0; row < n_; ++row)
      for (int64_t k = 0; k < n_; ++k)
        product[static_cast<size_t>(row)] += left_[static_cast<size_t>(row * n_ + k)] * by[static_cast<size_t>(k)];
    return product;
  }

  int64_t n_;
  std::vector<float> left_, right_;
  std::vector<std::vector<double>> expected_;
};

int64_t wrong_gemm_rows(Backend& backend, DType dtype) {
  const int64_t n = has_own_memory(backend) ? 2048 : 512;
  const int repeats = has_own_memory(backend) ? 8 : 2;  // an error may come and go
  const RowSums sums(n);
  Arena arena = arena_on(backend, n * n * 4 + 3 * n * n * size_of(dtype) + 8 * Arena::kAlignment);
  const Tensor wide = arena.take({n, n}, DType::f32);
  const Tensor x = arena.take({n, n}, dtype), weight = arena.take({n, n}, dtype), out = arena.take({n, n}, dtype);
  fill_values(backend, kCompute, wide, [&](int64_t i) { return sums.left(i); });
  backend.run(kCompute, Copy{.from = wide, .to = x});
  fill_values(backend, kCompute, wide, [&](int64_t i) { return sums.right(i); });
  backend.run(kCompute, Copy{.from = wide, .to = weight});
  const LinearForward op{.x = x, .weight = weight, .bias = {}, .pre = {}, .out = out};
  const Scratch scratch(backend, op);
  std::vector<float> host(static_cast<size_t>(n * n));
  int64_t wrong = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    backend.run(kCompute, op);
    backend.run(kCompute, Copy{.from = out, .to = wide});
    backend.download(kCompute, wide, host.data());
    backend.synchronize(backend.record(kCompute, "product_on_host"));
    wrong += sums.wrong_rows(host);
  }
  return wrong;
}

int64_t wrong_copies(Backend& backend) {
  const int64_t count = has_own_memory(backend) ? int64_t{64} << 20 : int64_t{1} << 20;
  Arena arena = arena_on(backend, 8 * count + 4 * Arena::kAlignment);
  const Tensor from = arena.take({count}, DType::f32), to = arena.take({count}, DType::f32);
  const ValueAt value = [](int64_t i) { return static_cast<float>(i % 8191); };
  fill_values(backend, kCompute, from, value);
  backend.run(kCompute, Copy{.from = from, .to = to});
  return count_wrong(backend, kCompute, to, value);
}

// ---------------------------------------------------------------------------------------------------------------- rates

// Work per second.
struct Rate {
  double sustained = 0;  // over a window
  double burst = 0;      // of its first rounds
};

// Of `round`, which does `work` of it.
Rate rate_of(Backend& backend, double work, double window, const std::function<void()>& begin,
             const std::function<void()>& round) {
  constexpr int kWarmUp = 2;       // GEMMs are planned and memory is touched
  constexpr int kBurstRounds = 3;  // milliseconds on a GPU
  const auto seconds_of_round = [&] {
    std::array<double, 2> times{};
    backend.note_time(kCompute, times.data());
    round();
    backend.note_time(kCompute, &times[1]);
    backend.collect_times();
    return times[1] - times[0];
  };
  for (int i = 0; i < kWarmUp; ++i) seconds_of_round();
  begin();
  const Stopwatch watch;
  double seconds = 0;
  int rounds = 0;
  Rate rate;
  do {
    seconds += seconds_of_round();
    rate.sustained = seconds > 0 ? work * ++rounds / seconds : 0;
    if (rounds <= kBurstRounds) rate.burst = rate.sustained;
  } while (watch.seconds() < window);
  return rate;
}

Rate gemm_rate(Backend& backend, DType dtype, double window, const std::function<void()>& begin) {
  const int64_t n = has_own_memory(backend) ? 8192 : 512;
  const int repeats = has_own_memory(backend) ? 4 : 1;
  Arena arena = arena_on(backend, n * n * 4 + 3 * n * n * size_of(dtype) + 8 * Arena::kAlignment);
  const Tensor random = arena.take({n, n}, DType::f32);
  const Tensor x = arena.take({n, n}, dtype), weight = arena.take({n, n}, dtype), out = arena.take({n, n}, dtype);
  for (const auto& [site, to] : {std::pair{0U, x}, std::pair{1U, weight}}) {
    backend.run(kCompute, RandomNormal{.site = site, .out = random});
    backend.run(kCompute, Copy{.from = random, .to = to});
  }
  const LinearForward op{.x = x, .weight = weight, .bias = {}, .pre = {}, .out = out};
  const Scratch scratch(backend, op);
  return rate_of(backend, op.flops() * repeats, window, begin, [&] {
    for (int i = 0; i < repeats; ++i) backend.run(kCompute, op);
  });
}

double copy_rate(Backend& backend, double window, const std::function<void()>& begin) {
  const int64_t bytes = int64_t{has_own_memory(backend) ? 1024 : 64} << 20;
  Arena arena = arena_on(backend, 2 * bytes + 4 * Arena::kAlignment);
  const Tensor from = arena.take({bytes / 4}, DType::f32), to = arena.take({bytes / 4}, DType::f32);
  backend.run(kCompute, Fill{.value = 1, .out = from});
  return rate_of(backend, 2.0 * static_cast<double>(bytes), window, begin,
                 [&] { backend.run(kCompute, Copy{.from = from, .to = to}); })
      .sustained;
}

void add_host_rates(Backend& backend, double window, const std::function<void()>& begin, DeviceRates& rates) {
  const int64_t bytes = int64_t{256} << 20;
  Arena arena = arena_on(backend, bytes + Arena::kAlignment);
  const Tensor there = arena.take({bytes}, DType::u8);
  const Memory host = backend.allocate_host(bytes);
  std::memset(host.block.get(), 1, static_cast<size_t>(bytes));
  // Uploads go through a buffer of the backend; a copy reads the pinned memory itself.
  const Tensor here{.data = host.block.get(), .dtype = DType::u8, .shape = {bytes}, .device = there.device};
  const auto copies_per_second = [&](const Tensor& from, const Tensor& to) {
    return rate_of(backend, static_cast<double>(bytes), window, begin,
                   [&] { backend.run(kCompute, Copy{.from = from, .to = to}); })
        .sustained;
  };
  rates.to_device = copies_per_second(here, there);
  rates.to_host = copies_per_second(there, here);
}

}  // namespace

DeviceErrors check_device(Backend& backend, DType dtype) {
  return {.gemm = wrong_gemm_rows(backend, dtype), .memory = wrong_copies(backend)};
}

DeviceRates measure_device(Backend& backend, DType dtype, double window, const std::function<void()>& begin) {
  const Rate gemm = gemm_rate(backend, dtype, window, begin);
  DeviceRates rates{.flops = gemm.sustained, .burst_flops = gemm.burst, .bytes = copy_rate(backend, window, begin)};
  if (has_own_memory(backend)) add_host_rates(backend, window, begin, rates);
  return rates;
}

double probe_seconds(double window) { return 2 * window + 1; }

}  // namespace trireme
