// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/stalled_ranks.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backends/communicators/wait_options.h"
#include "layouts/text_items.h"
#include "lowering/program/count_costs.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Earlier in the run is less. Programs of one session run one after the other,
// but in no fixed order; their numbers only keep them apart.
using Progress = std::tuple<int64_t, int, int>;

Progress ProgressOf(const RankPosition& position) {
  return {position.step, position.program,
          2 * position.collective - static_cast<int>(position.inside)};
}

// The ranks that a timeout waited for, where it says so.
std::vector<int64_t> MissingRanks(const absl::Status& timeout) {
  std::vector<int64_t> ranks;
  const auto payload = timeout.GetPayload(kMissingRanks);
  if (!payload.has_value()) return ranks;
  const std::string text(*payload);
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t rank = 0;
    if (absl::SimpleAtoi(item, &rank)) ranks.push_back(rank);
  }
  return ranks;
}

class Teller {
 public:
  Teller(const Program& program, const RankPosition& here)
      : here_(here), costs_(ListCollectives(program)), mesh_(program.mesh) {}

  // "at 119, all_gather of x over data (lm.cc:90)".
  std::string Tell(const RankPosition& position) const {
    if (position.program == 0) return "not in a program yet";
    if (position.program != here_.program) return "in another program";
    const std::string step = position.step == here_.step
                                 ? ""
                                 : absl::StrCat(" of step ", position.step);
    if (position.collective == 0) {
      return absl::StrCat("before the first collective",
                          step.empty() ? " of the step" : step);
    }
    return absl::StrCat(position.inside ? "at " : "behind ",
                        position.collective, Name(position.collective), step);
  }

 private:
  std::string Name(int number) const {
    if (number > static_cast<int>(costs_.size())) return "";
    const CollectiveCost& cost = costs_[number - 1];
    return absl::StrCat(", ", CollectiveName(cost.kind), " of ", cost.tensor,
                        " over ", mesh_.AxisNames(cost.axes),
                        cost.site.line > 0
                            ? absl::StrCat(" (", cost.site.ToString(), ")")
                            : "");
  }

  RankPosition here_;
  std::vector<CollectiveCost> costs_;
  const Mesh& mesh_;
};

}  // namespace

absl::Status NameStalledRanks(const absl::Status& timeout,
                              const Program& program,
                              const RankPosition& position,
                              const Communicator& communicator) {
  if (!absl::IsDeadlineExceeded(timeout)) return timeout;
  // As the others show theirs, to compare with them.
  const RankPosition here = RankPosition::Unpack(position.Pack());
  constexpr int kMostGroups = 4;
  std::map<Progress, std::pair<RankPosition, std::vector<int64_t>>> groups;
  std::vector<int64_t> unknown;
  for (int64_t rank = 0; rank < communicator.size(); ++rank) {
    std::optional<RankPosition> known = communicator.PositionOf(rank);
    if (rank == communicator.rank()) known = here;
    if (!known.has_value()) {
      unknown.push_back(rank);
      continue;
    }
    auto& [where, ranks] = groups[ProgressOf(*known)];
    where = *known;
    ranks.push_back(rank);
  }
  const Teller teller(program, here);
  std::string text;
  int told = 0;
  // A rank may stop between the start of a collective, which it shows, and its
  // part in it: who waited knows for whom.
  const std::vector<int64_t> missing = MissingRanks(timeout);
  const auto& [first, beside] = groups.begin()->second;
  const bool not_joined = first.inside && first.program == here.program &&
                          !missing.empty() && missing.size() < beside.size() &&
                          std::includes(beside.begin(), beside.end(),
                                        missing.begin(), missing.end());
  if (not_joined) {
    const bool all = groups.size() == 1 && unknown.empty();
    absl::StrAppend(&text, RanksText(missing),
                    missing.size() == 1 ? " has" : " have", " not joined ",
                    teller.Tell(first).substr(3), ", which ",
                    all ? "all" : RanksText(beside), " have begun");
    told = 1;
  }
  for (const auto& [progress, group] : groups) {
    const auto& [where, ranks] = group;
    if (not_joined && &group == &groups.begin()->second) continue;
    if (told == kMostGroups) {
      absl::StrAppend(&text, "; others are further on");
      break;
    }
    // Two groups, and nobody else: those that wait need no list.
    const bool others = told == 1 && groups.size() == 2 && unknown.empty();
    const bool one = ranks.size() == 1;
    absl::StrAppend(&text, told > 0 ? "; " : "",
                    !others ? RanksText(ranks)
                    : one   ? "the other"
                            : "the others",
                    one ? " is " : " are ", teller.Tell(where));
    ++told;
  }
  if (!unknown.empty()) {
    absl::StrAppend(&text, "; ", RanksText(unknown),
                    unknown.size() == 1 ? " is" : " are",
                    " on another host, where is not known");
  }
  // The first line of the timeout says who waited, how long and in what call;
  // the rest how to set the time.
  const absl::string_view message = timeout.message();
  const size_t end = std::min(message.find('\n'), message.size());
  return absl::DeadlineExceededError(
      absl::StrCat(text, DetailLine("waited", message.substr(0, end)),
                   DetailLine("step", absl::StrCat(position.step)),
                   DetailLine("mesh", Quoted(program.mesh.ToString())),
                   message.substr(end)));
}

StallWatch::StallWatch(const Program& program, int program_number,
                       const Communicator& communicator, double seconds)
    : program_(program),
      program_number_(program_number),
      communicator_(communicator),
      seconds_(seconds),
      thread_([this] { Watch(); }) {}

StallWatch::~StallWatch() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StallWatch::Watch() {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  // The ranks that wait all give up; the first of them speaks for them.
  const Seconds limit(
      seconds_ + std::min(0.1 * static_cast<double>(communicator_.rank()), 3.));
  RankPosition last;
  Clock::time_point since = Clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, Seconds(std::clamp(seconds_ / 4, 0.01, 1.)),
                         [this] { return stop_; })) {
    const RankPosition position =
        *communicator_.PositionOf(communicator_.rank());
    const Clock::time_point now = Clock::now();
    if (position != last || !position.inside ||
        position.program != program_number_) {
      last = position;
      since = now;
    } else if (now - since > limit) {
      const absl::Status timeout = absl::DeadlineExceededError(absl::StrCat(
          "rank ", communicator_.rank(), " waited ", seconds_,
          " s for messages", DetailLine("help", kCollectiveTimeoutHelp)));
      std::cerr << ErrorText(NameStalledRanks(timeout, program_, position,
                                              communicator_))
                << std::endl;
      AbortAllRanks(kTimeoutExitCode);
    }
  }
}

}  // namespace mtf
