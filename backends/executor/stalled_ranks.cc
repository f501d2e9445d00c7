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

#include "absl/strings/str_cat.h"
#include "backends/communicators/rank_errors.h"
#include "backends/communicators/wait_options.h"
#include "layouts/text_items.h"
#include "lowering/program/count_costs.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Orders positions by progress. Programs of one session run one at a time but
// in no fixed order; their numbers only distinguish them.
using Progress = std::tuple<int64_t, int, int>;

Progress ProgressOf(const RankPosition& position) {
  return {position.step, position.program,
          2 * position.collective - static_cast<int>(position.inside)};
}

// Describes the positions of ranks relative to that of this rank.
class PositionText {
 public:
  PositionText(const Program& program, const RankPosition& here)
      : here_(here), costs_(ListCollectives(program)), mesh_(program.mesh) {}

  // "at 119, all_gather of x over data (lm.cc:90)".
  std::string Describe(const RankPosition& position) const {
    if (position.program == 0) return "not in a program yet";
    if (position.program != here_.program) return "in another program";
    if (position.collective == 0) {
      const std::string step = StepText(position);
      return absl::StrCat("before the first collective",
                          step.empty() ? " of the step" : step);
    }
    return absl::StrCat(position.inside ? "at " : "after ",
                        Collective(position));
  }

  // "119, all_gather of x over data (lm.cc:90)".
  std::string Collective(const RankPosition& position) const {
    return absl::StrCat(position.collective, Name(position.collective),
                        StepText(position));
  }

 private:
  // " of step 7" unless it is the step of this rank.
  std::string StepText(const RankPosition& position) const {
    return position.step == here_.step
               ? ""
               : absl::StrCat(" of step ", position.step);
  }

  // ", all_gather of x over data (lm.cc:90)".
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

// Ranks at one position.
struct RanksAt {
  RankPosition position;
  std::vector<int64_t> ranks;
};

// All ranks by position, the ones that lag furthest first.
struct RankPositions {
  std::vector<RanksAt> groups;
  std::vector<int64_t> unknown;  // on other hosts
};

RankPositions ReadPositions(const RankPosition& here,
                            const Communicator& communicator) {
  std::map<Progress, RanksAt> groups;
  RankPositions positions;
  for (int64_t rank = 0; rank < communicator.size(); ++rank) {
    std::optional<RankPosition> known = communicator.PositionOf(rank);
    if (rank == communicator.rank()) known = here;
    if (!known.has_value()) {
      positions.unknown.push_back(rank);
      continue;
    }
    RanksAt& group = groups[ProgressOf(*known)];
    group.position = *known;
    group.ranks.push_back(rank);
  }
  for (auto& [progress, group] : groups) {
    positions.groups.push_back(std::move(group));
  }
  return positions;
}

// Whether only some of the ranks that show themselves inside the collective of
// `first` have joined it: a rank may stop between publishing its position and
// joining. The ranks that waited know which are `missing`.
bool HasNotJoined(const std::vector<int64_t>& missing, const RanksAt& first,
                  int program) {
  return first.position.inside && first.position.program == program &&
         !missing.empty() && missing.size() < first.ranks.size() &&
         std::includes(first.ranks.begin(), first.ranks.end(), missing.begin(),
                       missing.end());
}

// "rank 3 is after 118, ...; the others are at 119, ...".
std::string PositionsText(const RankPositions& positions,
                          const std::vector<int64_t>& missing,
                          const PositionText& text_of, int program) {
  constexpr int kMaxGroups = 4;
  const std::vector<RanksAt>& groups = positions.groups;
  const bool all_known = positions.unknown.empty();
  std::string text;
  int described = 0;
  const RanksAt& first = groups.front();
  if (HasNotJoined(missing, first, program)) {
    const bool all = groups.size() == 1 && all_known;
    absl::StrAppend(&text, RanksText(missing),
                    missing.size() == 1 ? " has" : " have", " not joined ",
                    text_of.Collective(first.position), ", which ",
                    all ? "all" : RanksText(first.ranks), " have begun");
    described = 1;
  }
  for (size_t i = described; i < groups.size(); ++i, ++described) {
    const RanksAt& group = groups[i];
    if (described == kMaxGroups) {
      absl::StrAppend(&text, "; other ranks are further ahead");
      break;
    }
    // With two groups in all, the second needs no list of ranks.
    const bool others = described == 1 && groups.size() == 2 && all_known;
    const bool one = group.ranks.size() == 1;
    absl::StrAppend(&text, described > 0 ? "; " : "",
                    !others ? RanksText(group.ranks)
                    : one   ? "the other"
                            : "the others",
                    one ? " is " : " are ", text_of.Describe(group.position));
  }
  if (!all_known) {
    absl::StrAppend(&text, "; ", RanksText(positions.unknown),
                    positions.unknown.size() == 1
                        ? " is on another host, position unknown"
                        : " are on other hosts, positions unknown");
  }
  return text;
}

}  // namespace

absl::Status NameStalledRanks(const absl::Status& timeout,
                              const Program& program,
                              const RankPosition& position,
                              const Communicator& communicator) {
  // Wraps the step around as in the positions of the other ranks.
  const RankPosition here = RankPosition::Unpack(position.Pack());
  if (absl::IsAborted(timeout) && !IsAnotherRankFailed(timeout)) {
    return absl::AbortedError(absl::StrCat(
        timeout.message(),
        DetailLine("here",
                   absl::StrCat("rank ", communicator.rank(), " is at ",
                                PositionText(program, here).Collective(here),
                                " of program ", here.program))));
  }
  if (!absl::IsDeadlineExceeded(timeout)) return timeout;
  const std::string text =
      PositionsText(ReadPositions(here, communicator), MissingRanksOf(timeout),
                    PositionText(program, here), here.program);
  // The first line of the timeout says which rank waited, how long and in which
  // call; the rest says how to change the timeout.
  const absl::string_view message = timeout.message();
  const size_t end = std::min(message.find('\n'), message.size());
  return absl::DeadlineExceededError(
      absl::StrCat(text, DetailLine("waited", message.substr(0, end)),
                   DetailLine("step", absl::StrCat(position.step)),
                   DetailLine("mesh", Quoted(program.mesh.ToString())),
                   message.substr(end)));
}

std::string DescribePosition(const RankPosition& position,
                             const Program& program, int program_number) {
  // A step that no position has, so that the text always contains the step.
  return PositionText(program, {.program = program_number, .step = -1})
      .Describe(position);
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
  // All waiting ranks time out; stagger them so that the first one reports.
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
