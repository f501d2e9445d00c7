// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_SESSION_H_
#define TRAIN_SESSION_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "backends/communicator.h"
#include "lowering/lower.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "train/session/tensor_shard.h"

namespace mtf::train {

// Where the ranks of a mesh live.
enum class RankKind : uint8_t {
  kAuto,   // kMpi where a launcher started several processes, else kLocal
  kLocal,  // threads of this process, all of them
  kMpi,    // this process is one rank
};

struct SessionOptions {
  std::string backend = "cpu";  // a name of DeviceNames()
  bool strict_layout = false;   // a rule that does nothing is an error
  uint32_t seed = 0;            // of every random number of the graph
  RankKind ranks = RankKind::kAuto;
  int threads_per_rank = 0;  // 0: the cores this process may use / its ranks
  // Seconds after which a rank that waits for others in a collective ends the
  // step with kDeadlineExceeded, which tells where each rank is; 0 waits for
  // ever. Negative: MTF_COLLECTIVE_TIMEOUT, or ten minutes.
  double collective_timeout = -1;
  // Where the trace of the first `trace_steps` steps with updates goes
  // (backends/executor/trace.h); "": no trace. Traced steps run one instruction
  // at a time and are slower; others are not.
  std::string trace = "";
  int64_t trace_steps = 3;
};

// What one call of Session::Run does.
struct RunRequest {
  // A whole tensor for each Input that the fetches and updates need, by name.
  // Every process of a job gives the same.
  std::map<std::string, HostTensor> feeds = {};
  // Instead of some of them: the shards of the ranks of this process, as
  // Session::InputShards asks for them.
  std::map<std::string, std::vector<TensorShard>> feed_shards = {};
  // Tensors to return.
  std::vector<Tensor> fetches = {};
  // Assign or Group tensors whose effects are wanted; they make a step.
  std::vector<Tensor> updates = {};
};

// Runs a graph on a mesh under a layout.
//
//   MTF_ASSIGN_OR_RETURN(auto session, Session::Create(
//       graph, "data:2,model:2", "batch:data, d_ff:model"));
//   MTF_RETURN_IF_ERROR(session->Initialize());
//   MTF_ASSIGN_OR_RETURN(std::vector<HostTensor> values, session->Run(
//       {.feeds = {{"x", x}}, .fetches = {loss}, .updates = {step}}));
//
// Under a launcher (mpirun, mtfrun) this process is one rank, and every process
// makes the same calls; otherwise the whole mesh runs as threads of this one.
// Values do not depend on which.
//
// Each set of fetches and updates is a program, lowered and prepared at its
// first use. A session keeps the kMostPrograms that were used last: one that
// was dropped, with its memory, is made again at its next use. Variables and
// the step have nothing to do with that.
//
// The graph is complete before the session is made, and outlives it. Not thread
// safe.
class Session {
 public:
  // Enough for training, evaluation, sampling and the variables of a small
  // model by name; each may hold as much memory as a step needs.
  static constexpr size_t kMostPrograms = 16;

  // `mesh` and `layout` are text, see ParsePlacement. Returns the graph's first
  // error, the errors of the texts, or those of the backend; where ranks
  // disagree, the error of the first that failed.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      const Graph& graph, absl::string_view mesh, absl::string_view layout,
      const SessionOptions& options = {});
  ~Session();

  // Gives every variable its initial value and sets the step to 0.
  absl::Status Initialize();

  // Computes the updates and returns the fetches, whole, in their order. The
  // step advances if there are updates and no error.
  //
  // kFailedPrecondition before Initialize, for a graph with variables;
  // otherwise the errors of Executor::Run.
  absl::StatusOr<std::vector<HostTensor>> Run(const RunRequest& request);

  // As Run, but nothing is gathered: for each fetch, the shards of the ranks of
  // this process, as the layout cuts it.
  absl::StatusOr<std::vector<std::vector<TensorShard>>> RunShards(
      const RunRequest& request);

  // Zeros for the shards of the Input called `name` that the ranks of this
  // process feed to `request`: what to fill in for RunRequest::feed_shards.
  absl::StatusOr<std::vector<TensorShard>> InputShards(
      const RunRequest& request, absl::string_view name);

  // The variable of this name, whole. kNotFound with the nearest name.
  absl::StatusOr<HostTensor> ReadVariable(absl::string_view name);

  // The program behind a request, for whoever wants to explain or count it. It
  // stays until kMostPrograms others have been used.
  absl::StatusOr<const Program*> ProgramOf(const RunRequest& request);

  // Where the devices of this session keep the values of a program: its own
  // plan, or one with less memory where a device runs several instructions as
  // one (lowering/passes/plan_for_machine.h).
  BufferPlan PlanOf(const Program& program) const;

  // For what a process does on its own, such as writing a file: the first error
  // by rank of the `status` that each brings. Collective.
  absl::Status Agree(const absl::Status& status);

  // What the first rank of this process has communicated since ResetCounts.
  const CollectiveCounts& counts() const;
  void ResetCounts();

  // Rules that do nothing on this mesh and graph, a line each; see
  // ResolvedRules::notices.
  const std::vector<std::string>& notices() const;

  // True in the process of rank 0, the one that speaks for all.
  bool is_primary() const;

  const Graph& graph() const;
  const Mesh& mesh() const;
  const LayoutBinding& binding() const;
  uint32_t seed() const;
  // Number of the next step: how many have been made.
  int64_t step() const;
  // How many threads compute for each rank.
  int threads_per_rank() const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  absl::Status CheckInitialized(const Program& program) const;
  std::unique_ptr<State> state_;
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_SESSION_H_
