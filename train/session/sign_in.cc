// SPDX-License-Identifier: Apache-2.0
#include "train/session/sign_in.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/communicators/rank_errors.h"
#include "backends/communicators/wait_options.h"
#include "backends/rank_position.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/session/value_groups.h"

namespace mtf::train {
namespace {

constexpr char kHelp[] =
    "every rank must make the same calls of the Session in the same order";

std::string Phrase(const JointCall& call) {
  return call.subject.empty() ? call.action
                              : absl::StrCat(call.action, " of ", call.subject);
}

std::string AreAt(absl::Span<const int64_t> ranks) {
  return absl::StrCat(RanksText(ranks), ranks.size() == 1 ? " is" : " are",
                      " at ");
}

JointCall Unpack(absl::string_view text) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('\n', 1));
  return {parts.first, parts.second};
}

// The error of ranks that signed in for different calls. `texts` are the calls
// by rank.
absl::Status Disagreement(absl::Span<const std::string> texts) {
  std::vector<ValueGroup> groups = GroupByValue(texts);
  const ValueGroup& odd = groups.front();
  const JointCall odd_call = Unpack(odd.value);
  const JointCall most_call = Unpack(groups.back().value);
  std::string text =
      absl::StrCat(AreAt(odd.ranks), Phrase(odd_call), ", where ",
                   AreAt(groups.back().ranks),
                   // Two steps of one request differ only in their numbers.
                   odd_call.subject == most_call.subject ? most_call.action
                                                         : Phrase(most_call));
  for (size_t i = 1; i + 1 < groups.size(); ++i) {
    absl::StrAppend(
        &text,
        DetailLine("also", absl::StrCat(AreAt(groups[i].ranks),
                                        Phrase(Unpack(groups[i].value)))));
  }
  return absl::AbortedError(absl::StrCat(text, DetailLine("help", kHelp)));
}

// The error of this rank, which is at `call`, if others do not sign in.
absl::Status Unanswered(const absl::Status& error, int64_t rank,
                        const JointCall& call) {
  const std::vector<int64_t> missing = MissingRanksOf(error);
  const bool late = absl::IsDeadlineExceeded(error);
  if (IsAnotherRankFailed(error) || (missing.empty() && !late)) return error;
  const std::string here = absl::StrCat(AreAt({rank}), Phrase(call));
  if (!late) {
    return absl::AbortedError(
        absl::StrCat(RanksText(missing), missing.size() == 1 ? " has" : " have",
                     " ended, where ", here, DetailLine("help", kHelp)));
  }
  const absl::string_view message = error.message();
  absl::Status named = absl::DeadlineExceededError(absl::StrCat(
      missing.empty() ? "some rank" : RanksText(missing),
      missing.size() > 1 ? " have" : " has", " not come to ", Phrase(call),
      DetailLine("waited", message.substr(0, message.find('\n'))),
      DetailLine("help", kCollectiveTimeoutHelp)));
  named.SetPayload(kMissingRanks, absl::Cord(absl::StrJoin(missing, ",")));
  return named;
}

}  // namespace

absl::Status SignIn(Communicator& job, uint64_t fingerprint,
                    absl::FunctionRef<JointCall()> call) {
  const absl::StatusOr<bool> same = job.SignIn(fingerprint);
  if (!same.ok()) return Unanswered(same.status(), job.rank(), call());
  if (*same) return absl::OkStatus();
  const JointCall mine = call();
  MTF_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      job.AllGatherText(absl::StrCat(mine.action, "\n", mine.subject)));
  return Disagreement(all);
}

absl::Status SignIn(Communicator& job, absl::string_view action) {
  return SignIn(job, StableHash(action), [&] {
    return JointCall{std::string(action), ""};
  });
}

uint64_t StableHash(absl::string_view text, uint64_t hash) {
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

std::string RequestText(const Targets& targets, uint64_t program) {
  constexpr size_t kMostNames = 3;
  std::vector<std::string> details;
  if (program != 0) {
    details.push_back(
        absl::StrCat("program ", absl::Hex(program & 0xffff, absl::kZeroPad4)));
  }
  const std::vector<Tensor>& tensors =
      targets.fetches.empty() ? targets.updates : targets.fetches;
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) names.push_back(tensor.name());
  if (!tensors.empty()) {
    const CallSite& site = tensors[0].operation()->call_site();
    if (site.line > 0) details.push_back(site.ToString());
  }
  const size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  std::string text =
      targets.initialize
          ? "Initialize()"
          : absl::StrCat(
                "request ",
                Quoted(absl::StrCat(
                    absl::StrJoin(names, ", "),
                    more == 0 ? "" : absl::StrCat(" and ", more, " more"))));
  if (!details.empty()) {
    absl::StrAppend(&text, " (", absl::StrJoin(details, ", "), ")");
  }
  return text;
}

}  // namespace mtf::train
