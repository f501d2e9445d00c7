// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (starts other programs)
//
// mtf train, eval and convert of models that are no language models: BERT by
// masked tokens, ViT and ResNet as classifiers of pictures.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/tools/run_mtf.h"
#include "tests/train/data/data_files.h"

namespace mtf {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::RunMtf;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr char kBert[] =
    "--model=bert --length=12 --config='{\"vocab_size\":26,\"hidden_size\":12,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"intermediate_size\":16,\"max_position_embeddings\":16}' ";
constexpr char kVit[] =
    "--model=vit --config='{\"hidden_size\":12,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":2,\"intermediate_size\":16,\"image_size\":12,"
    "\"patch_size\":4,\"num_labels\":5}' ";
constexpr char kResNet[] =
    "--model=resnet --image_size=12 --config='{\"embedding_size\":4,"
    "\"hidden_sizes\":[4,8],\"depths\":[1,1],\"layer_type\":\"basic\","
    "\"num_labels\":5}' ";

class MtfTrainModels : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) {
    return absl::StrCat(folder_, "/", name);
  }
  void Write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path(Path(name));
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // Texts of numbers, and a WordPiece vocabulary for them; the flags of both.
  std::string Texts() {
    std::vector<std::string> vocabulary = {"[PAD]", "[UNK]",  "[CLS]",
                                           "[SEP]", "[MASK]", "and"};
    std::string text, held_out;
    for (int i = 0; i < 10; ++i) {
      vocabulary.push_back(absl::StrCat(i));
      vocabulary.push_back(absl::StrCat("##", i));
    }
    for (int i = 0; i < 120; ++i) {
      absl::StrAppend(i < 100 ? &text : &held_out, i, " and ", i * i, "\n");
    }
    Write("bert/vocab.txt", absl::StrJoin(vocabulary, "\n") + "\n");
    Write("text", text);
    Write("held_out", held_out);
    return absl::StrCat("--tokenizer=", Path("bert/vocab.txt"),
                        " --data=", Path("text"),
                        " --eval_data=", Path("held_out"), " ");
  }

  // Pictures of 12 x 12 pixels, whose classes are bright stripes at five
  // heights; the flags of training and held-out ones.
  std::string Pictures() {
    for (int label = 0; label < 5; ++label) {
      for (int i = 0; i < 6; ++i) {
        std::vector<uint8_t> pixels(12 * 12 * 3);
        for (int at = 0; at < 12 * 12 * 3; ++at) {
          const bool bright = at / (12 * 3 * 2) == label;
          pixels[at] = static_cast<uint8_t>((bright ? 180 : 20) +
                                            (at * 7 + i * 13) % 60);
        }
        Write(absl::StrCat(i < 4 ? "train" : "test", "/class_", label, "/", i,
                           ".png"),
              testing::PngFile(12, 12, 3, pixels));
      }
    }
    return absl::StrCat("--data=", Path("train"), " --eval_data=", Path("test"),
                        " ");
  }

  static Outcome Train(const std::string& flags) {
    return RunMtf(absl::StrCat(
        "train --batch=4 --warmup_steps=2 --schedule=constant --steps=10 ",
        flags));
  }
  std::vector<double> Losses(const std::string& log) {
    return testing::LossesOf(Path(log));
  }

  // What follows the step of a line of mtf eval.
  std::string Evaluated(const std::string& flags) {
    const Outcome eval = RunMtf("eval " + flags);
    EXPECT_EQ(eval.exit_code, 0) << eval.errors;
    const size_t begin = eval.out.find("accuracy ");
    return begin == std::string::npos ? "" : eval.out.substr(begin);
  }

  static double LossIn(const std::string& values) {
    double loss = 0;
    const size_t begin = values.find("loss ");
    EXPECT_NE(begin, std::string::npos) << values;
    EXPECT_EQ(std::sscanf(values.c_str() + begin, "loss %lf", &loss), 1);
    return loss;
  }

  // Trains a model whole and in two parts, the second on another mesh, and
  // expects the same losses; that mtf eval says what the last evaluation says;
  // and that exported weights are read again. `moves`: a step without a
  // learning rate changes the model, as averages of batch norms do.
  void TrainResumeEvaluateExport(const std::string& flags, bool moves = false) {
    const Outcome whole =
        Train(absl::StrCat(flags, "--eval_every=5 --log_json=", Path("whole")));
    ASSERT_EQ(whole.exit_code, 0) << whole.errors;
    EXPECT_THAT(whole.out, ContainsRegex("step 5  evaluation: accuracy 0?1?[.]?"
                                         "[0-9]*, loss [0-9.]+"));
    const std::string parts = absl::StrCat(
        flags, "--checkpoint_dir=", Path("run"), " --log_json=", Path("parts"));
    const Outcome first = Train(parts + " --steps=6");
    ASSERT_EQ(first.exit_code, 0) << first.errors;
    const Outcome rest =
        Train(parts + " --resume=must --mesh_shape=data:2 --layout=batch:data");
    ASSERT_EQ(rest.exit_code, 0) << rest.errors;
    EXPECT_EQ(rest.errors, "");
    const std::vector<double> one = Losses("whole"), two = Losses("parts");
    ASSERT_EQ(one.size(), 10u);
    ASSERT_EQ(two.size(), 10u);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(two[i], one[i], 1e-5 * one[i]) << i;
    }

    const std::string run = absl::StrCat("--checkpoint_dir=", Path("run"));
    const std::string values = Evaluated(run);
    const size_t last = whole.out.find("step 10  evaluation: accuracy ");
    ASSERT_NE(last, std::string::npos) << whole.out;
    // The two runs add in different orders, so a last digit may be rounded up
    // in one of them.
    const std::string shown =
        whole.out.substr(whole.out.find("accuracy", last));
    EXPECT_EQ(shown.substr(0, shown.find(',')),
              values.substr(0, values.find(',')));
    EXPECT_NEAR(LossIn(shown), LossIn(values), 1.0001e-4);
    // Neither the seed nor the batch changes what is evaluated.
    EXPECT_EQ(Evaluated(run + " --seed=7"), values);
    EXPECT_NEAR(LossIn(Evaluated(run + " --batch=5")), LossIn(values), 2e-4);

    const Outcome convert = RunMtf(
        absl::StrCat("convert ", run, " --published=", Path("published")));
    ASSERT_EQ(convert.exit_code, 0) << convert.errors;
    const Outcome again = Train(absl::StrCat(
        flags,
        "--steps=1 --learning_rate=1e-30 --warmup_steps=0 --eval_every=1 "
        "--init_from=",
        Path("published")));
    ASSERT_EQ(again.exit_code, 0) << again.errors;
    EXPECT_THAT(again.out, HasSubstr("parameters from "));
    const size_t evaluation = again.out.find("evaluation: ");
    ASSERT_NE(evaluation, std::string::npos);
    if (!moves) {
      EXPECT_NEAR(LossIn(again.out.substr(evaluation)), LossIn(values), 2e-4);
    }
  }

  const std::string folder_ = Temporary("mtf_train_models");
};

TEST_F(MtfTrainModels, BertByMaskedTokens) {
  TrainResumeEvaluateExport(Texts() + kBert);
}

TEST_F(MtfTrainModels, BertByNextSentencesToo) {
  const std::string flags = Texts() + kBert + "--next_sentence ";
  TrainResumeEvaluateExport(flags);
  const Outcome run = Train(flags + "--eval_every=10");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, ContainsRegex("next_sentence_accuracy 0?1?[.]?[0-9]*, "
                                     "next_sentence_loss [0-9.]+"));
}

TEST_F(MtfTrainModels, VitByFoldersOfPictures) {
  TrainResumeEvaluateExport(Pictures() + kVit);
}

// A batch norm with the statistics of the batch would evaluate other batches
// differently.
TEST_F(MtfTrainModels, ResNetByFoldersOfPictures) {
  TrainResumeEvaluateExport(Pictures() + kResNet, /*moves=*/true);
}

TEST_F(MtfTrainModels, LearnsToClassify) {
  const Outcome run = Train(absl::StrCat(
      Pictures(), kVit, "--steps=60 --learning_rate=0.01 --eval_every=60"));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, HasSubstr("step 60  evaluation: accuracy 1.0000"));
}

// Weights that the package transformers wrote, with adapters.
TEST_F(MtfTrainModels, BeginsWithPublishedWeights) {
  const std::string texts = Texts(), pictures = Pictures();
  for (const auto& [model, data] :
       {std::pair{"bert", texts + "--length=12 --adapters='**/attention' "},
        std::pair{"vit", pictures + "--adapters='**/attention' "},
        std::pair{"resnet", pictures + "--image_size=12 "}}) {
    const std::string folder = absl::StrCat(MODELS_DIR, "/", model);
    const Outcome run =
        Train(absl::StrCat(data, "--steps=2 --config=", folder,
                           "/config.json --init_from=", folder));
    EXPECT_EQ(run.exit_code, 0) << model << "\n" << run.errors;
    EXPECT_THAT(run.out, AllOf(ContainsRegex("loaded [0-9]+ parameters from "),
                               HasSubstr("step 2/2")));
  }
}

// The files of CIFAR-10 and MNIST.
TEST_F(MtfTrainModels, PicturesInArrays) {
  std::string cifar;
  std::vector<uint8_t> pixels, labels;
  for (int i = 0; i < 6; ++i) {
    cifar += static_cast<char>(i);
    for (int at = 0; at < 3 * 32 * 32; ++at) {
      cifar += static_cast<char>((at * i) % 251);
    }
    for (int at = 0; at < 12 * 12; ++at) {
      pixels.push_back(static_cast<uint8_t>((at * i) % 251));
    }
    labels.push_back(static_cast<uint8_t>(i % 5));
  }
  Write("batch.bin", cifar);
  Write("pictures", testing::IdxFile({6, 12, 12}, pixels));
  Write("labels", testing::IdxFile({6}, labels));
  const std::string sizes =
      "--model=resnet --steps=2 --eval_every=2 --config='{\"embedding_size\":4,"
      "\"hidden_sizes\":[4],\"depths\":[1],\"layer_type\":\"basic\",";
  for (const std::string& flags :
       {absl::StrCat(sizes, "\"num_labels\":10}' --image_size=32 --data=",
                     Path("batch.bin"), " --eval_data=", Path("batch.bin")),
        absl::StrCat(sizes,
                     "\"num_labels\":5,\"num_channels\":1}' "
                     "--image_size=12 --data=",
                     Path("pictures"), ",", Path("labels"),
                     " --eval_data=", Path("pictures"), ",", Path("labels"))}) {
    const Outcome run = Train(flags);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_THAT(run.out, HasSubstr("step 2  evaluation: accuracy "));
  }
  EXPECT_THAT(Train(absl::StrCat(kResNet, "--data=", Path("batch.bin"))).errors,
              HasSubstr("have 10 classes, but the model has 5"));
  EXPECT_THAT(Train(absl::StrCat(sizes,
                                 "\"num_labels\":10}' --image_size=16 "
                                 "--data=",
                                 Path("batch.bin")))
                  .errors,
              HasSubstr("are 32 x 32 x 3, but the model reads 16 x 16 x 3"));
}

TEST_F(MtfTrainModels, ErrorsNameBothNumbers) {
  const std::string texts = Texts(), pictures = Pictures();
  struct Wrong {
    std::string flags, message;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {pictures + "--model=resnet --image_size=12 --config='{\"depths\":"
                       "[1],\"hidden_sizes\":[8],\"num_labels\":3}'",
            "have 5 classes, but the model has 3"},
           {pictures + kResNet + "--image_size=16",
            "12 rows of 12 pixels.*\n.*pictures of 16 x 16 x 3"},
           {pictures + kVit + "--image_size=16",
            "--image_size is 16, but the config says 12"},
           {pictures + kVit + "--length=16", "--length is given, but the"},
           {pictures + kVit + "--prompt_length=2", "--prompt_length is 2"},
           {texts + kBert + "--image_size=16", "--image_size is given, but"},
           {pictures + kVit + "--next_sentence", "only BERT predicts it"},
           {texts + kBert + "--length=20", "max_position_embeddings is 16"},
           {texts + kBert + "--tokenizer=bytes",
            "vocabulary of 26, but the tokenizer makes"},
           {texts + kBert + "--tokenizer=none", "there is no tokenizer"},
           {pictures + kVit + "--data=" + Path("train/class_0/0.png"),
            "1 file, which are no pictures"},
           {pictures + kVit + "--eval_data=" + Path("no"), "NOT_FOUND"}}) {
    SCOPED_TRACE(wrong.flags);
    const Outcome outcome = Train(wrong.flags);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.errors, ContainsRegex(wrong.message));
  }
  std::filesystem::rename(Path("test/class_3"), Path("test/class_9"));
  EXPECT_THAT(Train(pictures + kVit).errors,
              HasSubstr("class 3 is \"class_3\" in --data="));
}

// A file that ends with its last picture.
TEST_F(MtfTrainModels, ReadsTheLastPictureOfBytes) {
  const std::string model = absl::StrCat(
      "--model=mtf_image_transformer --length=48 --batch=1 --steps=1 "
      "--config='{\"img_len\":4,\"hidden_size\":8,\"d_kv\":4,\"d_ff\":8,"
      "\"num_heads\":2,\"num_decoder_layers\":1,\"block_length\":6}' --data=",
      Path("bytes"), " --eval_data=", Path("bytes"));
  Write("bytes", std::string(48, 'a'));
  const Outcome run = Train(model);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  Write("bytes", std::string(47, 'a'));
  EXPECT_THAT(Train(model).errors,
              HasSubstr("has 47 tokens, but a picture needs 48"));
}

}  // namespace
}  // namespace mtf
