#include "comm/staged_backend.h"

#include <algorithm>
#include <bit>

namespace trireme {
namespace {

bool overlap(const Tensor& a, const Tensor& b) {
  const auto begin = [](const Tensor& t) { return static_cast<const std::byte*>(t.data); };
  return a && b && begin(a) < begin(b) + b.bytes() && begin(b) < begin(a) + a.bytes();
}

}  // namespace

Stream StagedBackend::on_device(Stream stream) {
  CHECK(!is_carried(stream));
  return stream;
}

StagedBackend::Line& StagedBackend::line(Stream stream) { return lines_[stream.number()]; }

// Returns the smallest free slot that is large enough, or a new one. From the second step on every size is found.
Tensor StagedBackend::stage(const Tensor& like) {
  Slot* best = nullptr;
  for (Slot& slot : slots_)
    if (!slot.used && slot.bytes >= like.bytes() && (best == nullptr || slot.bytes < best->bytes)) best = &slot;
  if (best == nullptr) {
    const auto bytes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(like.bytes(), 4096))));
    best = &slots_.emplace_back(Slot{inner_.allocate_host(bytes), bytes});
  }
  best->used = true;
  return {best->memory.block.get(), like.dtype, like.shape, Device::host};
}

void StagedBackend::release(const Copies& copies) {
  for (const StagedCopy& copy : copies)
    for (Slot& slot : slots_) {
      const Tensor whole{slot.memory.block.get(), DType::u8, {slot.bytes}, Device::host};
      if (overlap(whole, copy.host)) slot.used = false;
    }
}

bool StagedBackend::writes_what_is_read(const Line& line, std::span<const StagedCopy> downloads) const {
  for (size_t i = 0; i < line.calls.size(); ++i)
    for (const StagedCopy& upload : line.calls[i].uploads)
      for (const StagedCopy& download : downloads)
        if (overlap(upload.device, download.device)) return true;
  return false;
}

void StagedBackend::enqueue(Call call, std::span<const StagedCopy> downloads, std::span<const StagedCopy> uploads) {
  Line& here = line(call.stream);
  const Event before{.name = "staged", .stream = call.stream, .ticket = progress_.enqueued(call.stream)};
  if (writes_what_is_read(here, downloads) || progress_.reached(before)) land(before);
  for (const StagedCopy& copy : downloads) inner_.download(call.stream, copy.device, copy.host.data);
  call.event = inner_.record(call.stream, "staged");
  progress_.enqueue(call);
  UnderWay& added = here.calls.push_back({.number = progress_.enqueued(call.stream), .downloads = {}, .uploads = {}});
  std::ranges::copy(downloads, added.downloads.begin());
  std::ranges::copy(uploads, added.uploads.begin());
  if (!is_carried(call.stream)) land({.name = "staged", .stream = call.stream, .ticket = added.number});
}

void StagedBackend::land(const Event& event) {
  Line& here = line(event.stream);
  if (here.calls.empty() || here.calls.front().number > event.ticket) return;
  progress_.synchronize(event);
  for (; !here.calls.empty() && here.calls.front().number <= event.ticket; here.calls.pop_front()) {
    const UnderWay& done = here.calls.front();
    for (const StagedCopy& copy : done.uploads)
      if (copy.device) inner_.upload(event.stream, copy.host.data, copy.device);
    release(done.downloads);
    release(done.uploads);
  }
  here.landed = inner_.record(event.stream, "landed");
}

Event StagedBackend::record(Stream stream, const char* name) {
  if (!is_carried(stream)) return inner_.record(stream, name);
  return {.name = name, .stream = stream, .ticket = progress_.enqueued(stream)};
}

void StagedBackend::wait(Stream stream, const Event& event) {
  if (stream == event.stream) return;
  if (!is_carried(event.stream)) return inner_.wait(stream, event);
  land(event);
  inner_.wait(stream, line(event.stream).landed);
}

void StagedBackend::note_time(Stream stream, double* seconds) {
  if (is_carried(stream))
    progress_.note_time(stream, seconds);
  else
    inner_.note_time(stream, seconds);
}

void StagedBackend::collect_times() {
  inner_.collect_times();
  progress_.collect_times();
}

void StagedBackend::synchronize(const Event& event) {
  if (!is_carried(event.stream)) return inner_.synchronize(event);
  land(event);
  inner_.synchronize(line(event.stream).landed);
}

}  // namespace trireme
