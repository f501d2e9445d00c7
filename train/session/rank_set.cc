// SPDX-License-Identifier: Apache-2.0
#include "train/session/rank_set.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backends/communicators/rank_errors.h"
#include "layouts/text_items.h"
#include "mtf/exceptions.h"
#include "mtf/status.h"

namespace mtf::train {

absl::Status AgreeOnStatus(Communicator& communicator,
                           const absl::Status& status) {
  // "" for OK, else the code and the message, "3 message".
  const std::string mine = status.ok()
                               ? ""
                               : absl::StrCat(static_cast<int>(status.code()),
                                              " ", status.message());
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                       communicator.AllGatherText(mine));
  std::vector<absl::Status> statuses;
  for (const std::string& text : all) {
    if (text.empty()) continue;
    const size_t blank = text.find(' ');
    int code = static_cast<int>(absl::StatusCode::kUnknown);
    (void)absl::SimpleAtoi(absl::string_view(text).substr(0, blank), &code);
    statuses.emplace_back(static_cast<absl::StatusCode>(code),
                          absl::string_view(text).substr(blank + 1));
  }
  return FirstCause(statuses);
}

absl::StatusOr<std::unique_ptr<Communicator>> JobCommunicator(
    int size, JobPurpose purpose) {
  // Groups are keyed by the sizes of a mesh; no user mesh has as many axes.
  const std::string ranks = absl::StrCat("ranks:", size);
  MTF_ASSIGN_OR_RETURN(
      const Mesh mesh,
      Mesh::Parse(purpose == JobPurpose::kBeginAndEnd
                      ? absl::StrCat(ranks, ",a:1,b:1,c:1,d:1,e:1,f:1,g:1")
                      : absl::StrCat("a:1,b:1,c:1,d:1,e:1,f:1,g:1,", ranks),
                  size));
  return CreateMpiCommunicator(mesh);
}

absl::StatusOr<std::unique_ptr<RankSet>> RankSet::Create(const Mesh& mesh,
                                                         bool launched) {
  auto ranks = std::make_unique<RankSet>();
  ranks->mesh_size_ = mesh.num_devices();
  if (launched) {
    MTF_ASSIGN_OR_RETURN(ranks->mpi_, CreateMpiCommunicator(mesh));
    MTF_ASSIGN_OR_RETURN(ranks->job_,
                         JobCommunicator(static_cast<int>(ranks->mesh_size_),
                                         JobPurpose::kSession));
    return ranks;
  }
  if (ranks->mesh_size_ > kMaxLocalRanks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh ", Quoted(mesh.ToString()), " has ", ranks->mesh_size_,
        " devices, but one process runs at most ", kMaxLocalRanks,
        " ranks as threads",
        DetailLine("help",
                   "start the ranks with mtfrun or mpirun, or show only "
                   "the plan with --explain")));
  }
  const absl::Status started = CatchExceptions([&] {
    ranks->local_ = std::make_unique<LocalRanks>(mesh);
    return absl::OkStatus();
  });
  if (!started.ok()) {
    return absl::Status(
        started.code(),
        absl::StrCat("mesh ", Quoted(mesh.ToString()), " needs ",
                     ranks->mesh_size_,
                     " threads of this process: ", started.message()));
  }
  return ranks;
}

absl::Status RankSet::Run(const Body& body) {
  if (!local_) return CatchExceptions([&] { return body(0, *mpi_); });
  return local_->Run([&body](Communicator& communicator) {
    return body(static_cast<int>(communicator.rank()), communicator);
  });
}

absl::Status RankSet::RunAgreed(const Body& body) { return Agree(Run(body)); }

}  // namespace mtf::train
