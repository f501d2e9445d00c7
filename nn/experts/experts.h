// SPDX-License-Identifier: Apache-2.0
//
// Mixture of experts: layers in which each token is computed by a few of many
// networks, the experts, which a router chooses.
//
// The tokens of a group are those along the dimension before the model
// dimension; the dimensions before it number the groups. An expert has a fixed
// number of slots for the tokens of each group, its capacity, so shapes do not
// depend on the data. Choices beyond the capacity are dropped: the layer adds
// nothing for them, and a residual connection passes the token on.
//
// A layout shards the groups and the experts, each by a rule:
//
//   batch:data, experts:data
//
// Where experts compute, they take the axes that they share with groups;
// everywhere else the groups have them. So tokens change ranks twice, in one
// all_to_all to their experts and one back. The preset `expert` has these
// rules. With `batch:data` alone experts are replicated, as in data
// parallelism. Every layout drops the same tokens.
#ifndef NN_EXPERTS_EXPERTS_H_
#define NN_EXPERTS_EXPERTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/layers/activations.h"
#include "nn/layers/feed_forward.h"

namespace mtf::nn {

enum class Routing : uint8_t {
  // Each token chooses its .choices best experts: with 1 as in the Switch
  // Transformer (Fedus et al., 2021), with 2 as in GShard (Lepikhin et al.,
  // 2020). All first choices take slots before all second ones.
  kTopK,
  // Each token goes to the best of its .choices best experts that has a slot
  // left ("no token left behind", Fedus et al., 2021, appendix B).
  kNoTokenLeftBehind,
  // Each expert chooses its best tokens (Zhou et al., 2022), .choices per token
  // on average. No slot is empty. A token may have any number of experts, and
  // its choice depends on later tokens of its group.
  kExpertChoice,
};

// Which choices of a token after the first are sent to their experts, by their
// weights.
enum class FurtherChoices : uint8_t {
  kAll,
  kNone,
  kThreshold,  // those with a weight above .threshold
  kRandom,     // with the probability weight / .threshold; in evaluation, all
};

// How tokens move to slots and back. Both give the same values, except for
// rounding.
enum class Dispatch : uint8_t {
  kAutomatic,  // kOneHot if a group has few slots
  kOneHot,     // products with a one-hot tensor [experts, capacity, tokens]
  kSorted,     // rows are gathered, and added back, by their indices
};

struct ExpertsOptions {
  Routing routing = Routing::kTopK;
  int64_t choices = 2;
  FurtherChoices further = FurtherChoices::kAll;  // for kTopK only
  double threshold = 0.2;
  // Whether the weights of the choices of a token are divided by their sum.
  // Empty: for kTopK with several choices. Dropped choices count in the sum.
  // Not for kExpertChoice.
  std::optional<bool> normalize = std::nullopt;
  // Whether tokens with a greater probability of their first choice take slots
  // first (Riquelme et al., 2021), not those with a lower index. Not for
  // kExpertChoice, which always does.
  bool prioritize = false;

  // An expert has ceil(factor * choices * tokens / experts) slots for each
  // group, without .choices for kNoTokenLeftBehind; at least min_capacity and
  // at most one per token. The second factor is for Mode::kEvaluate.
  double capacity_factor = 1.25, evaluation_capacity_factor = 2;
  int64_t min_capacity = 4;
  // If positive: groups of more tokens are split, into the largest equal groups
  // that are not larger. Then the dimension of the tokens numbers groups too.
  int64_t group_size = 0;

  // The input of the router is multiplied by random numbers in [1 - jitter,
  // 1 + jitter), except in Mode::kEvaluate.
  double jitter = 0;
  // I32, with dimensions of `x` before the model dimension: to how many experts
  // a token goes at most. 0 is padding: it takes no slot and counts in no
  // statistic. Empty: no limit. kNoTokenLeftBehind sends a token to one expert
  // at most and kExpertChoice to any number: they only tell 0 from others.
  Tensor limit = Tensor();

  Dispatch dispatch = Dispatch::kAutomatic;
  // Of experts that are feed-forward networks. Its .each and .name are ignored.
  FeedForwardOptions feed_forward = {};
  std::string name = "experts";
};

// The result of a layer. Losses and statistics are f32. Add the losses to that
// of the model, times factors of about 0.01 and 0.001.
//
//   nn::Experts y = nn::MixtureOfExperts(x, experts, d_ff, Gelu);
//   loss = loss + 0.01 * y.load_balancing_loss + 0.001 * y.z_loss;
struct Experts {
  Tensor output;  // in the shape of x, if experts keep it
  // The number of experts times the sum over experts of (fraction of first
  // choices) * (mean probability), averaged over groups: 1 if all experts are
  // equally busy (Fedus et al., 2021). 0 for kExpertChoice. Fractions and means
  // are over the tokens of a group that are not padding, and a group of nothing
  // but padding does not count.
  Tensor load_balancing_loss;
  // The mean of the squared logsumexp of the router (Zoph et al., 2022).
  Tensor z_loss;
  // The fraction of choices that found no slot; for kNoTokenLeftBehind and
  // kExpertChoice the fraction of tokens without an expert.
  Tensor dropped;
  // [experts]: the fraction of all choices that each expert got, before any
  // were dropped. Sums to 1.
  Tensor load;
};

// Computes what the experts make of [experts, groups..., capacity, d_model]:
// each row is a token, and has the model dimension last. Rows of empty slots
// hold any token, and their results are ignored. Kernels that differ by expert
// have the dimension `experts` (DenseOptions::each).
using ExpertLayer = std::function<Tensor(Tensor x)>;

// A mixture of feed-forward networks with `d_ff` hidden units each:
//
//   sum over choices of (weight of the choice) * (result of its expert)
//
//   // [batch, length, d_model]; a group is a sequence.
//   nn::Experts y = nn::MixtureOfExperts(nn::LayerNorm(x, d_model),
//                                        {"experts", 8}, d_ff, Gelu);
//   x = x + y.output;
//
// The router is a softmax over the experts of a linear function of the token,
// computed in f32. Ties go to the expert or the token of the lower index.
// Experts compute in the scope "<name>/expert", the rest in "<name>".
//
// Records kInvalidArgument in the graph if `x` is not a float or has fewer than
// two dimensions; if it has the dimension `experts`; for choices outside
// [1, experts], factors or a threshold that are not positive, a jitter outside
// [0, 1), a min_capacity below 1 or a negative group_size; if an option is set
// that the routing does not use; if the limit is not an i32 or has other
// dimensions; and for the errors of FeedForward. Returns empty Tensors if `x`
// is empty.
Experts MixtureOfExperts(
    Tensor x, Dimension experts, Dimension d_ff, Activation activation,
    ExpertsOptions options = {},
    std::source_location location = std::source_location::current());

// The same with other experts. The output has the dimensions of `x` before the
// model dimension and those of the result of `expert` after its capacity.
//
//   nn::MixtureOfExperts(x, experts, [&](Tensor rows) {
//     return nn::Dense(rows, {d_model}, {d_out}, {.each = {experts}});
//   });
//
// Also records kInvalidArgument if `expert` is null, or if its result is empty
// or lacks a dimension of its input other than the last.
Experts MixtureOfExperts(
    Tensor x, Dimension experts, ExpertLayer expert,
    ExpertsOptions options = {},
    std::source_location location = std::source_location::current());

struct TwoLevelOptions {
  // Of the first level. Its .feed_forward is that of the experts.
  ExpertsOptions outer = {};
  // Of the second level, in groups of its own: .limit is ignored.
  ExpertsOptions inner = {.capacity_factor = 1};
};

// A mixture of mixtures of experts (MoE2D of Mesh TensorFlow): a first router
// sends tokens to one of the dimension `outer`, and one router for each of
// these to their experts along `inner`. With two mesh axes, tokens move along
// one at each level:
//
//   // [pods, batch, length, d_model], on the mesh pod:2,data:4
//   nn::TwoLevelExperts(x, {"outer", 4}, {"inner", 2}, d_ff, Gelu);
//
//   pods:pod, batch:data, outer:data, inner:pod
//
// A group of the first level is one of the second last dimension before the
// model dimension, `batch` above. At the second level it is what an element of
// the dimensions before it, `pods`, has sent to one of `outer`. A token that is
// there as a later choice than its first goes to one expert only, unless the
// experts of the second level choose tokens (kExpertChoice). Each level has two
// all_to_alls, and one of 4 bytes per slot that tells which tokens these are.
// The losses and the fraction of dropped choices of both levels are added; the
// load is [outer, inner].
//
// Records the errors of MixtureOfExperts for each level, and kInvalidArgument
// if `x` has fewer than three dimensions or both levels have one name.
Experts TwoLevelExperts(
    Tensor x, Dimension outer, Dimension inner, Dimension d_ff,
    Activation activation, TwoLevelOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_EXPERTS_EXPERTS_H_
