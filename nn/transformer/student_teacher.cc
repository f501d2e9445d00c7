// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer/student_teacher.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/softmax.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/stop_gradient.h"

namespace mtf::nn {
namespace {

absl::Status CheckOptions(const Graph& graph,
                          const DistillationOptions& options) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckPositive(".temperature", options.temperature));
  if (!(options.fraction >= 0 && options.fraction <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(".fraction is ", options.fraction, ", not in [0, 1]"));
  }
  if (!options.schedule.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(graph, {options.schedule}));
  if (options.schedule.dtype() == kFloat32 &&
      options.schedule.shape().rank() == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the schedule is ", DTypeName(options.schedule.dtype()),
                   " [", options.schedule.shape().ToString(),
                   "], not a scalar f32", DescribeInputs({options.schedule})));
}

// f32 logits divided by the temperature.
Tensor Softened(Tensor logits, double temperature) {
  return internal::To(kFloat32, logits) * (1 / temperature);
}

}  // namespace

Tensor DistillationLoss(Tensor student_logits, Tensor teacher_logits,
                        Dimension vocab, Tensor targets,
                        DistillationOptions options,
                        std::source_location location) {
  Graph* graph =
      mtf::internal::GraphOf({student_logits, teacher_logits, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  absl::Status status = mtf::internal::CheckInputs(
      *graph, {student_logits, teacher_logits, targets});
  if (status.ok()) status = CheckOptions(*graph, options);
  if (status.ok()) status = internal::CheckFloat(teacher_logits, "the teacher");
  if (status.ok()) status = internal::CheckDimension(teacher_logits, vocab);
  if (!status.ok()) {
    return graph->Fail(status,
                       internal::DescribeLayer("distillation", options.name),
                       location);
  }
  const Tensor hard =
      SoftmaxCrossEntropy(student_logits, vocab, targets, options.loss);
  const double t = options.temperature;
  const Tensor probabilities =
      StopGradient(Softmax(Softened(teacher_logits, t), vocab));
  CrossEntropyOptions of_teacher = options.loss;
  of_teacher.label_smoothing = 0;
  const Tensor soft = SoftmaxCrossEntropy(Softened(student_logits, t), vocab,
                                          probabilities, of_teacher);
  if (!options.schedule.valid()) {
    return hard * (1 - options.fraction) + soft * (t * t * options.fraction);
  }
  const Tensor f = StopGradient(options.schedule) * options.fraction;
  return hard * (1.0 - f) + soft * (f * (t * t));
}

StudentTeacher MakeStudentTeacher(Graph& graph,
                                  const std::function<LanguageModel()>& student,
                                  const std::function<LanguageModel()>& teacher,
                                  Tensor targets, DistillationOptions options,
                                  std::source_location location) {
  const CallSiteScope site(graph, location);
  StudentTeacher both;
  if (student == nullptr || teacher == nullptr) {
    both.loss = graph.Fail(
        absl::InvalidArgumentError("the function of the student or of the "
                                   "teacher is null"),
        "student_teacher", location);
    return both;
  }
  {
    const Scope scope(graph, "student");
    both.student = student();
  }
  if (options.fraction == 0) {
    both.loss = LanguageModelLoss(both.student, targets, options.loss);
    return both;
  }
  {
    const Scope scope(graph, "teacher");
    const ModeScope mode(graph, Mode::kEvaluate);
    both.teacher = teacher();
  }
  both.loss = DistillationLoss(LanguageModelLogits(both.student),
                               StopGradient(LanguageModelLogits(both.teacher)),
                               both.student.vocab, targets, options);
  return both;
}

}  // namespace mtf::nn
