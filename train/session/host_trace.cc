// SPDX-License-Identifier: Apache-2.0
#include "train/session/host_trace.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace mtf::train {
namespace {

// A JSON string literal; bytes that are not UTF-8 are replaced.
std::string JsonLiteral(absl::string_view text) {
  using nlohmann::json;
  return json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

double MicrosecondsOf(HostTrace::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

void HostTrace::Add(absl::string_view thread, absl::string_view event,
                    Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!open_) return;
  const auto [row, is_new] = rows_.try_emplace(
      std::this_thread::get_id(), static_cast<int64_t>(rows_.size()) + 1);
  const std::string place =
      absl::StrCat("\"pid\":", rank_, ",\"tid\":", row->second);
  if (is_new) {
    const int64_t number = ++threads_[std::string(thread)];
    const std::string name =
        number == 1 ? std::string(thread) : absl::StrCat(thread, " ", number);
    absl::StrAppend(&events_, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",",
                    place, ",\"args\":{\"name\":", JsonLiteral(name), "}}");
  }
  absl::StrAppend(&events_, ",\n{\"name\":", JsonLiteral(event),
                  ",\"cat\":\"host\",\"ph\":\"X\",", place, ",\"ts\":",
                  absl::StrFormat("%.3f,\"dur\":%.3f",
                                  MicrosecondsOf(begin.time_since_epoch()),
                                  MicrosecondsOf(end - begin)),
                  ",\"args\":{}}");
}

std::string HostTrace::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(events_, "");
}

void HostTrace::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = false;
  events_.clear();
}

}  // namespace mtf::train
