// SPDX-License-Identifier: Apache-2.0
#ifndef NN_TRANSFORMER_STUDENT_TEACHER_H_
#define NN_TRANSFORMER_STUDENT_TEACHER_H_

#include <functional>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"
#include "nn/losses/cross_entropy.h"
#include "nn/models/language_model.h"

namespace mtf::nn {

struct DistillationOptions {
  double temperature = 1;
  // The part of the teacher in the loss, in [0, 1]. 0: no teacher.
  double fraction = 0.5;
  // F32, a scalar: multiplies `fraction`, such as a schedule that is 0 in the
  // first steps. Has no gradient.
  Tensor schedule = Tensor();
  // Of both cross entropies: z_loss, weights and per_position, and for the
  // targets label_smoothing.
  CrossEntropyOptions loss = CrossEntropyOptions();
  std::string name = "distillation";
};

// The loss of a student that learns from targets and from a teacher (Hinton et
// al., 2015), with a temperature T and the fraction f of the teacher:
//
//   (1 - f) * H(targets, softmax(student))
//     + f * T^2 * H(softmax(teacher / T), softmax(student / T))
//
// where H is the mean of SoftmaxCrossEntropy over positions. The teacher gets
// no gradient.
//
//   // logits [positions..., vocab], targets [positions...] -> scalar
//   Tensor loss = nn::DistillationLoss(student, teacher, vocab, targets,
//                                      {.temperature = 2, .fraction = 0.9});
//
// Records kInvalidArgument in the graph if the temperature is not positive and
// finite, the fraction outside [0, 1], the schedule not a scalar f32, and for
// the errors of SoftmaxCrossEntropy. Returns an empty Tensor if logits and
// targets are empty.
Tensor DistillationLoss(
    Tensor student_logits, Tensor teacher_logits, Dimension vocab,
    Tensor targets, DistillationOptions options = {},
    std::source_location location = std::source_location::current());

struct StudentTeacher {
  LanguageModel student, teacher;  // the teacher's is empty for fraction 0
  Tensor loss;                     // of the student
};

// Builds a student in the scope "student" and its teacher in the scope
// "teacher", and their DistillationLoss. Each function returns a model, such as
// a call of DecoderModel.
//
//   const nn::StudentTeacher both = nn::MakeStudentTeacher(
//       graph, [&] { return nn::DecoderModel(inputs, small); },
//       [&] { return nn::DecoderModel(inputs, large); }, targets);
//   Tensor step = nn::AdamW({.learning_rate = 1e-3,
//                            .groups = {{.parameters = "teacher/**",
//                                        .frozen = true}}})
//                     .Minimize(both.loss);
//
// The teacher is built for evaluation, without dropout (Mesh TensorFlow leaves
// it as for training). The loss has no gradient of its parameters: load them
// from a checkpoint (LoadWeights, SavedState).
//
// Records kInvalidArgument in the graph if a function is null, and for the
// errors of DistillationLoss.
StudentTeacher MakeStudentTeacher(
    Graph& graph, const std::function<LanguageModel()>& student,
    const std::function<LanguageModel()>& teacher, Tensor targets,
    DistillationOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_STUDENT_TEACHER_H_
