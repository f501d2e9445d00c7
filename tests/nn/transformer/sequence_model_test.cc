// SPDX-License-Identifier: Apache-2.0
//
// Models from the options of their stacks, ensembles of them, and students with
// their teachers.
#include "nn/transformer/sequence_model.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "nn/layers/embedding.h"
#include "nn/layers/sinusoid_positions.h"
#include "nn/transformer/ensemble.h"
#include "nn/transformer/student_teacher.h"
#include "nn/transformer/transparent.h"
#include "ops/index.h"
#include "ops/one_hot.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 2}, kLength{"length", 4}, kModel{"d_model", 4},
    kHeads{"heads", 2}, kKey{"d_kv", 2}, kHidden{"d_ff", 3}, kVocab{"vocab", 5},
    kTarget{"length", 3}, kEnsemble{"ensemble", 3};

nn::SequenceModelOptions Small() {
  const nn::TransformerOptions stack = {
      .layers = 2,
      .attention = {.heads = kHeads, .d_kv = kKey},
      .d_ff = kHidden};
  return {.vocab = kVocab,
          .d_model = kModel,
          .positions = nn::PositionKind::kSinusoid,
          .encoder = stack,
          .decoder = stack};
}

Tensor Tokens(OracleGraph& o) {
  return o.Integers("tokens", {kBatch, kLength}, {1, 4, 2, 0, 3, 3, 1, 2});
}
Tensor Targets(OracleGraph& o) {
  return o.Integers("targets", {kBatch, kTarget}, {2, 1, 4, 0, 3, 2});
}

TEST(DecoderModel, IsAnEmbeddingAStackAndAHead) {
  OracleGraph o;
  const Tensor tokens = Tokens(o);
  nn::SequenceModelOptions options = Small();
  nn::LanguageModel model;
  {
    const Scope scope(o.graph, "net");
    model = nn::DecoderModel(tokens, options);
  }
  Tensor hidden;
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    const Tensor table = nn::EmbeddingTable(o.graph, kVocab, kModel);
    const Scope stack(o.graph, "decoder");
    const Tensor x = nn::Embedding(tokens, kVocab, kModel, {.table = table}) +
                     nn::SinusoidPositions(Range(o.graph, kLength), kModel);
    options.decoder.attention.length = kLength;
    options.decoder.attention.causal = true;
    hidden = nn::TransformerStack(x, options.decoder).output * 0.5;
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(model.hidden), o.Run(hidden), 1e-9);

  // The last token changes no earlier position.
  const std::vector<double> before = o.Run(model.hidden);
  o.feeds["tokens"] =
      HostTensor::Of<int32_t>({kBatch, kLength}, {1, 4, 2, 3, 3, 3, 1, 0});
  const std::vector<double> after = o.Run(model.hidden);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i] == after[i], i / 4 % 4 != 3) << i;
  }
}

TEST(EncoderModel, DoesNotAttendToPadding) {
  OracleGraph o;
  const Tensor tokens = Tokens(o);
  nn::SequenceModelOptions options = Small();
  options.positions = nn::PositionKind::kLearned;
  options.tied = false;
  options.mask =
      Constant(o.graph, {1, 1, 1, 0, 1, 1, 0, 0}, kBool, {kBatch, kLength});
  const nn::LanguageModel model = nn::EncoderModel(tokens, options);
  ASSERT_OK(o.graph.status());
  const std::vector<double> before = o.Run(nn::LanguageModelLogits(model));
  o.feeds["tokens"] =
      HostTensor::Of<int32_t>({kBatch, kLength}, {1, 4, 2, 3, 3, 3, 4, 0});
  const std::vector<double> after = o.Run(nn::LanguageModelLogits(model));
  for (const size_t position : {0, 1, 2, 4, 5}) {
    for (size_t i = position * 5; i < position * 5 + 5; ++i) {
      EXPECT_EQ(before[i], after[i]);
    }
  }
}

TEST(EncoderDecoderModel, AttendsToTheEncoder) {
  OracleGraph o;
  const Tensor tokens = Tokens(o), targets = Targets(o);
  nn::SequenceModelOptions options = Small();
  nn::LanguageModel model;
  {
    const Scope scope(o.graph, "net");
    model = nn::EncoderDecoderModel(tokens, nn::ShiftRight(targets), options);
  }
  Tensor hidden;
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    const Tensor table = nn::EmbeddingTable(o.graph, kVocab, kModel);
    const auto embed = [&](Tensor of, const Dimension& length) {
      return nn::Embedding(of, kVocab, kModel, {.table = table}) +
             nn::SinusoidPositions(Range(o.graph, length), kModel);
    };
    options.encoder.attention.length = kLength;
    options.decoder.attention.length = kTarget;
    options.decoder.attention.causal = true;
    Tensor memory;
    {
      const Scope stack(o.graph, "encoder");
      memory =
          nn::TransformerStack(embed(tokens, kLength), options.encoder).output;
    }
    const Scope stack(o.graph, "decoder");
    hidden = nn::TransformerStack(embed(nn::ShiftRight(targets), kTarget),
                                  options.decoder,
                                  Rename(memory, "length", "memory_length"))
                 .output *
             0.5;
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(model.hidden), o.Run(hidden), 1e-9);
}

TEST(TransparentMemories, AreMixturesOfStates) {
  OracleGraph o;
  std::vector<Tensor> states;
  for (const char* name : {"a", "b", "c"}) {
    states.push_back(o.Parameter(name, {kLength, kModel}));
  }
  const std::vector<Tensor> memories = nn::TransparentMemories(states, 2);
  ASSERT_OK(o.graph.status());
  ASSERT_EQ(memories.size(), 2);
  const std::vector<double> w = o.Value("transparent/weights");
  for (int j = 0; j < 2; ++j) {
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += std::exp(w[i * 2 + j]);
    std::vector<double> want(16, 0.0);
    for (int i = 0; i < 3; ++i) {
      const std::vector<double>& state =
          o.Value(std::vector<std::string>{"a", "b", "c"}[i]);
      for (int k = 0; k < 16; ++k) {
        want[k] += std::exp(w[i * 2 + j]) / sum * state[k];
      }
    }
    testing::ExpectNear(o.Run(memories[j]), want);
  }
  o.ExpectGradientsOf(testing::Probe(o, memories[1]));
}

// Sets the variables of `one` to element `member` of those of `all`.
void TakeMember(OracleGraph& all, OracleGraph& one, int64_t member) {
  for (const VariableInfo& info : one.graph.variables()) {
    const std::vector<double>& values = all.Value(info.name);
    const int64_t count = info.shape.num_elements();
    ASSERT_EQ(static_cast<int64_t>(values.size()), count * kEnsemble.size)
        << info.name;
    one.variables[info.name] = {
        info.shape, info.dtype,
        std::vector<double>(values.begin() + member * count,
                            values.begin() + (member + 1) * count)};
  }
}

TEST(Ensemble, HasTheMembersOfSeparateModels) {
  nn::SequenceModelOptions options = Small();
  options.positions = nn::PositionKind::kLearned;
  options.decoder.relative_positions =
      nn::RelativePositionOptions{.buckets = 4, .max_distance = 4};
  options.encoder.residual = {.norm = {.kind = nn::NormKind::kRmsNorm},
                              .rezero = true};
  options.decoder.residual.norm.kind = nn::NormKind::kScaleNorm;
  options.encoder.feed_forward = {.bias = true, .gated = true};
  options.encoder.attention.bias = true;
  for (const bool tied : {false, true}) {
    options.tied = tied;
    options.transparent = !tied;
    const auto build = [&](OracleGraph& o) {
      const Tensor targets = Targets(o);
      const nn::LanguageModel model =
          nn::EncoderDecoderModel(Tokens(o), nn::ShiftRight(targets), options);
      return std::pair(nn::LanguageModelLogits(model),
                       nn::LanguageModelLoss(model, targets));
    };
    OracleGraph o;
    options.ensemble = kEnsemble;
    const auto [logits, loss] = build(o);
    ASSERT_OK(o.graph.status());
    o.Fill();
    options.ensemble = Dimension();
    double sum = 0;
    for (int64_t member = 0; member < kEnsemble.size; ++member) {
      OracleGraph one;
      const auto [own_logits, own_loss] = build(one);
      ASSERT_OK(one.graph.status());
      TakeMember(o, one, member);
      const Tensor of_member =
          Transpose(Index(logits, "ensemble", member), own_logits.shape());
      testing::ExpectNear(o.Run(of_member), one.Run(own_logits), 1e-9);
      sum += one.Run(own_loss)[0];
    }
    EXPECT_NEAR(o.Run(loss)[0], sum / 3, 1e-9);
  }
}

TEST(EnsembleLogits, AreThoseOfMeans) {
  OracleGraph o;
  const Tensor logits = o.Parameter("logits", {kEnsemble, kBatch, kVocab});
  const std::vector<double> x = o.Value("logits");
  const std::vector<double> mean = o.Run(nn::EnsembleLogits(
      logits, kEnsemble, kVocab, nn::EnsembleReduction::kMeanLogit));
  const Tensor probability = nn::EnsembleLogits(logits, kEnsemble, kVocab);
  const std::vector<double> log = o.Run(probability);
  for (int b = 0; b < 2; ++b) {
    std::vector<double> p(5, 0.0), m(5, 0.0);
    for (int e = 0; e < 3; ++e) {
      double sum = 0;
      for (int v = 0; v < 5; ++v) sum += std::exp(x[(e * 2 + b) * 5 + v]);
      for (int v = 0; v < 5; ++v) {
        p[v] += std::exp(x[(e * 2 + b) * 5 + v]) / sum / 3;
        m[v] += x[(e * 2 + b) * 5 + v] / 3;
      }
    }
    for (int v = 0; v < 5; ++v) {
      EXPECT_NEAR(log[b * 5 + v], std::log(p[v]), 1e-6);
      EXPECT_NEAR(mean[b * 5 + v], m[v], 1e-6);
    }
  }
  o.ExpectGradientsOf(testing::Probe(o, probability));
}

TEST(DistillationLoss, IsThatOfTargetsAndTeacher) {
  OracleGraph o;
  const Tensor student = o.Parameter("student", {kBatch, kVocab}),
               teacher = o.Parameter("teacher", {kBatch, kVocab});
  const Tensor targets = o.Integers("targets", {kBatch}, {3, 1});
  const double t = 2.5, f = 0.75;
  const Tensor loss = nn::DistillationLoss(student, teacher, kVocab, targets,
                                           {.temperature = t, .fraction = f});
  const std::vector<double> s = o.Value("student"), q = o.Value("teacher");
  // log softmax(x / scale)[v] of row b.
  const auto log_softmax = [](const std::vector<double>& x, int b, int v,
                              double scale) {
    double sum = 0;
    for (int i = 0; i < 5; ++i) sum += std::exp(x[b * 5 + i] / scale);
    return x[b * 5 + v] / scale - std::log(sum);
  };
  double hard = 0, soft = 0;
  for (int b = 0; b < 2; ++b) {
    hard -= log_softmax(s, b, b == 0 ? 3 : 1, 1) / 2;
    for (int v = 0; v < 5; ++v) {
      soft -= std::exp(log_softmax(q, b, v, t)) * log_softmax(s, b, v, t) / 2;
    }
  }
  EXPECT_NEAR(o.Run(loss)[0], (1 - f) * hard + f * t * t * soft, 1e-6);
  EXPECT_FALSE(Gradients(loss, {teacher})[0].valid());
  const Tensor rate = Constant(o.graph, 0.5, kFloat32, {});
  EXPECT_NEAR(o.Run(nn::DistillationLoss(
                  student, teacher, kVocab, targets,
                  {.temperature = t, .fraction = f, .schedule = rate}))[0],
              (1 - f / 2) * hard + f / 2 * t * t * soft, 1e-6);
}

TEST(StudentTeacher, TrainsTheStudentOnly) {
  OracleGraph o;
  const Tensor targets = Targets(o);
  nn::SequenceModelOptions small = Small(), large = Small();
  small.decoder.layers = 1;
  large.decoder.residual.dropout = 0.5;  // has no effect: see below
  const auto model = [&](const nn::SequenceModelOptions& options) {
    return [&] { return nn::DecoderModel(nn::ShiftRight(targets), options); };
  };
  const nn::StudentTeacher both = nn::MakeStudentTeacher(
      o.graph, model(small), model(large), targets, {.temperature = 2});
  ASSERT_OK(o.graph.status());
  int students = 0, teachers = 0;
  for (const VariableInfo& info : o.graph.variables()) {
    const bool is_student = info.name.starts_with("student/");
    EXPECT_TRUE(is_student || info.name.starts_with("teacher/")) << info.name;
    EXPECT_EQ(Gradients(both.loss, {info.read})[0].valid(), is_student)
        << info.name;
    ++(is_student ? students : teachers);
  }
  EXPECT_GT(students, 8);
  EXPECT_GT(teachers, students);
  // Each run is another step, whose dropout would differ.
  EXPECT_EQ(o.Run(both.loss)[0], o.Run(both.loss)[0]);
}

TEST(SequenceModelErrors, SayWhatIsWrong) {
  const auto error = [](const std::function<void(Graph&)>& make) {
    Graph graph;
    make(graph);
    return graph.status();
  };
  const auto tokens = [](Graph& graph, DType dtype = kInt32) {
    return Input(graph, "tokens", dtype, {kBatch, kLength});
  };
  EXPECT_THAT(
      error([&](Graph& g) { nn::DecoderModel(tokens(g, kFloat32), Small()); }),
      StatusIs(kInvalid, HasSubstr("tokens must have an integer")));
  EXPECT_THAT(error([&](Graph& g) { nn::EncoderModel(tokens(g), {}); }),
              StatusIs(kInvalid, HasSubstr(".vocab is missing")));
  EXPECT_THAT(error([&](Graph& g) {
                nn::SequenceModelOptions options = Small();
                options.mask = Ones(g, kBool, {kBatch});
                nn::EncoderModel(tokens(g), options);
              }),
              StatusIs(kInvalid, HasSubstr("the mask must have")));
  EXPECT_THAT(error([&](Graph& g) {
                nn::SequenceModelOptions options = Small();
                options.transparent = options.encoder.reversible = true;
                const Tensor x = tokens(g);
                nn::EncoderDecoderModel(x, x, options);
              }),
              StatusIs(kInvalid, HasSubstr(".transparent needs")));
  EXPECT_THAT(error([&](Graph& g) {
                nn::TransparentMemories({Ones(g, kFloat32, {kModel})}, 0);
              }),
              StatusIs(kInvalid, HasSubstr("memories is 0, less than 1")));
  const auto distill = [&](nn::DistillationOptions options) {
    return error([&](Graph& g) {
      const Tensor logits = Ones(g, kFloat32, {kBatch, kVocab});
      if (options.fraction == 1) {
        options.schedule = Ones(g, kFloat32, {kBatch});
      }
      nn::DistillationLoss(logits, logits, kVocab, Zeros(g, kInt32, {kBatch}),
                           options);
    });
  };
  EXPECT_THAT(distill({.temperature = 0}),
              StatusIs(kInvalid, HasSubstr(".temperature is 0")));
  EXPECT_THAT(distill({.fraction = 2}),
              StatusIs(kInvalid, HasSubstr(".fraction is 2, not in [0, 1]")));
  EXPECT_THAT(distill({.fraction = 1}),
              StatusIs(kInvalid, HasSubstr("not a scalar f32")));
  EXPECT_THAT(error([](Graph& g) {
                nn::MakeStudentTeacher(g, nullptr, nullptr, Tensor());
              }),
              StatusIs(kInvalid, HasSubstr("teacher is null")));
  EXPECT_THAT(error([](Graph& g) {
                nn::EnsembleLogits(Ones(g, kFloat32, {kVocab}), kEnsemble,
                                   kVocab);
              }),
              StatusIs(kInvalid, HasSubstr("ensemble")));
}

}  // namespace
}  // namespace mtf
