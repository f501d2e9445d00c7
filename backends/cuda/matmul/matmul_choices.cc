// SPDX-License-Identifier: Apache-2.0
//
// This file is also built into the shared object of the CUDA driver.
#include "backends/cuda/matmul/matmul_choices.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

constexpr int kCandidates = 8;  // taken from the heuristics and timed

// A parsed proposal, as written by Proposal.
struct Proposed {
  std::string version;
  // Each problem with its algorithm, or "" if none is proposed.
  std::vector<std::pair<std::string, std::string>> choices;
};

Proposed ReadProposal(const std::string& text) {
  Proposed proposed;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t tab = line.find('\t');
    if (tab == absl::string_view::npos) {
      proposed.version = std::string(line);
      continue;
    }
    proposed.choices.emplace_back(line.substr(tab + 1),
                                  absl::HexStringToBytes(line.substr(0, tab)));
  }
  return proposed;
}

}  // namespace

absl::StatusOr<std::string> MatmulChoices::ChooseAlone(
    const MatmulProblem& problem, bool may_time) {
  const std::string key =
      absl::StrCat(library_.Version(), " ", problem.ToString());
  const std::optional<std::string> kept = cache_.Find(key);
  if (kept.has_value() && library_.Accepts(problem, *kept)) return *kept;
  MTF_ASSIGN_OR_RETURN(
      const std::vector<std::string> candidates,
      library_.Candidates(problem, may_time ? kCandidates : 1));
  if (!may_time) return candidates[0];
  const std::optional<size_t> best =
      candidates.size() == 1 ? std::optional<size_t>(0)
                             : library_.Fastest(problem, candidates);
  // Not cached if it was not timed, for lack of memory: a later process may.
  if (best.has_value()) cache_.Keep(key, candidates[*best]);
  return candidates[best.value_or(0)];
}

absl::StatusOr<std::shared_ptr<const MatmulChoices::Choice>>
MatmulChoices::Choose(const MatmulProblem& problem, bool may_time) {
  const std::string text = problem.ToString();
  // Serialized: timing needs the GPU for itself.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = chosen_.find(text);
  if (known != chosen_.end()) return known->second;
  auto choice = std::make_shared<Choice>();
  if (alone_) {
    MTF_ASSIGN_OR_RETURN(choice->algorithm, ChooseAlone(problem, may_time));
  } else {
    MTF_ASSIGN_OR_RETURN(std::vector<std::string> first,
                         library_.Candidates(problem, 1));
    choice->algorithm = std::move(first[0]);
    pending_.push_back({problem, choice});
  }
  chosen_.emplace(text, choice);
  return choice;
}

void MatmulChoices::JoinClique() {
  const std::lock_guard<std::mutex> lock(mutex_);
  alone_ = false;
  chosen_.clear();
  pending_.clear();
}

std::string MatmulChoices::Proposal(int rank) {
  std::vector<std::string> lines = {library_.Version()};
  for (const Pending& pending : pending_) {
    std::string algorithm;
    if (rank == 0) {
      // An error is reported where the matmul is prepared; here it means no
      // proposal.
      absl::StatusOr<std::string> chosen =
          ChooseAlone(pending.problem, /*may_time=*/true);
      if (chosen.ok()) algorithm = *std::move(chosen);
    }
    lines.push_back(absl::StrCat(absl::BytesToHexString(algorithm), "\t",
                                 pending.problem.ToString()));
  }
  return absl::StrJoin(lines, "\n");
}

MatmulChoices::Pending* MatmulChoices::FindPending(absl::string_view problem) {
  for (Pending& pending : pending_) {
    if (pending.problem.ToString() == problem) return &pending;
  }
  return nullptr;
}

std::string MatmulChoices::Adopt(const std::vector<std::string>& proposals,
                                 const std::vector<std::string>& answers) {
  const Proposed first = ReadProposal(proposals[0]);
  std::vector<std::string> notes;
  for (size_t rank = 1; rank < proposals.size(); ++rank) {
    const std::string version = ReadProposal(proposals[rank]).version;
    if (version == first.version) continue;
    notes.push_back(absl::StrCat("rank ", rank, " runs matmuls with ", version,
                                 " and rank 0 with ", first.version,
                                 ": replicas may differ in the last bits"));
    break;  // one report is enough
  }
  int refused = 0;
  std::string refusal;
  for (size_t i = 0; i < first.choices.size(); ++i) {
    const auto no = std::find_if(
        answers.begin(), answers.end(), [&](const std::string& answer) {
          return answer.size() != first.choices.size() || answer[i] != 'y';
        });
    if (no == answers.end()) {
      FindPending(first.choices[i].first)->choice->algorithm =
          first.choices[i].second;
    } else if (++refused == 1) {
      refusal = absl::StrCat("rank ", no - answers.begin(),
                             " cannot run the choice of rank 0 for ",
                             first.choices[i].first);
    }
  }
  if (refused > 0) {
    notes.push_back(absl::StrCat(
        refused, " of ", first.choices.size(),
        " matmuls use the first choice of each rank's heuristics: ", refusal));
  }
  return absl::StrJoin(notes, "; ");
}

absl::StatusOr<std::string> MatmulChoices::Settle(
    int rank, const AllGatherTexts& all_gather) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> proposals,
                       all_gather(Proposal(rank)));
  const Proposed first = ReadProposal(proposals[0]);
  std::string note;
  if (!first.choices.empty()) {
    std::string answer;
    for (const auto& [problem, algorithm] : first.choices) {
      const Pending* mine = FindPending(problem);
      const bool yes = !algorithm.empty() && mine != nullptr &&
                       library_.Accepts(mine->problem, algorithm);
      answer.push_back(yes ? 'y' : 'n');
    }
    MTF_ASSIGN_OR_RETURN(const std::vector<std::string> answers,
                         all_gather(answer));
    note = Adopt(proposals, answers);
  }
  pending_.clear();
  return note;
}

}  // namespace mtf::cuda
