// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/emulated/streams.h"

#include <utility>

namespace mtf::cuda {

void EmulatedStreams::SetOrder(StreamOrder order, uint32_t seed) {
  Finish();
  order_ = order;
  random_.seed(seed);
}

void EmulatedStreams::Enqueue(const Entry& entry) {
  if (order_ == StreamOrder::kAsEnqueued) {
    if (entry.kind == Kind::kWork) Keep(entry.work());
    return;
  }
  Queued queued{entry};
  bool second = entry.asynchronous;
  switch (entry.kind) {
    case Kind::kWork:
      break;
    case Kind::kBegin:
      second = false;
      queued.number = ++entry.mark->begins;
      break;
    case Kind::kWaitForBegin:
      second = true;
      queued.number = entry.mark->begins;
      break;
    case Kind::kEnd:
      second = true;
      queued.number = ++entry.mark->ends;
      break;
    case Kind::kWaitForEnd:
      second = false;
      queued.number = entry.mark->ends;
      break;
  }
  (second ? second_ : first_).push_back(std::move(queued));
  // Work of the first stream runs at once, before any pending work of the
  // second.
  if (order_ == StreamOrder::kAsyncLate) Run(/*all=*/false);
}

bool EmulatedStreams::IsReady(const std::deque<Queued>& stream) const {
  if (stream.empty()) return false;
  const Queued& next = stream.front();
  switch (next.entry.kind) {
    case Kind::kWaitForBegin:
      return next.entry.mark->begun >= next.number;
    case Kind::kWaitForEnd:
      return next.entry.mark->ended >= next.number;
    default:
      return true;
  }
}

void EmulatedStreams::RunFirst(std::deque<Queued>& stream) {
  const Queued next = std::move(stream.front());
  stream.pop_front();
  switch (next.entry.kind) {
    case Kind::kWork:
      return Keep(next.entry.work());
    case Kind::kBegin:
      next.entry.mark->begun = next.number;
      return;
    case Kind::kEnd:
      next.entry.mark->ended = next.number;
      return;
    default:
      return;
  }
}

void EmulatedStreams::Finish() { Run(/*all=*/true); }

void EmulatedStreams::Run(bool all) {
  while (!first_.empty() || (all && !second_.empty())) {
    const bool first = IsReady(first_), second = IsReady(second_);
    if (!first && !second) {
      Keep(
          absl::InternalError("deadlock: the two streams wait for each other"));
      first_.clear();
      second_.clear();
      return;
    }
    bool takes_second = second;
    if (first && second) {
      takes_second = order_ == StreamOrder::kAsyncEarly ||
                     (order_ == StreamOrder::kRandom && random_() % 2 == 0);
    }
    RunFirst(takes_second ? second_ : first_);
  }
}

void EmulatedStreams::Keep(const absl::Status& status) {
  if (error_.ok()) error_ = status;
}

absl::Status EmulatedStreams::TakeError() {
  return std::exchange(error_, absl::OkStatus());
}

}  // namespace mtf::cuda
