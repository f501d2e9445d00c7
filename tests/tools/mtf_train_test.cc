// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (starts other programs)
//
// mtf train, eval and convert as a user runs them.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/tools/run_mtf.h"
#include "train/loop/metrics.h"

namespace mtf {
namespace {

using ::mtf::testing::Outcome;
using ::mtf::testing::ReadText;
using ::mtf::testing::RunMtf;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class MtfTrain : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    std::ofstream text(Path("text")), held_out(Path("held_out"));
    for (int i = 0; i < 700; ++i) {
      (i < 600 ? text : held_out) << i << " and " << i * i << "\n";
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) {
    return absl::StrCat(folder_, "/", name);
  }
  // Trains a tiny model; `more` takes precedence.
  Outcome Train(const std::string& more) {
    return RunMtf(absl::StrCat(
        "train --data=", Path("text"), " --eval_data=", Path("held_out"),
        " --batch=4 --length=8 --warmup_steps=5 --schedule=constant "
        "--steps=20 "
        "--config='{\"layers\":1,\"d_model\":12,\"heads\":2,\"d_kv\":6,"
        "\"d_ff\":16}' ",
        more));
  }
  std::vector<double> Losses(const std::string& log) {
    return testing::LossesOf(Path(log));
  }

  const std::string folder_ = Temporary("mtf_train");
};

// Models by the names that mtf explain takes, too.
TEST_F(MtfTrain, TakesNamesOfModelsAndPresets) {
  const std::string data = absl::StrCat(
      "train --data=", Path("text"), " --eval_data=", Path("held_out"),
      " --eval_batches=2 --eval_every=3 --steps=3 ");
  // An encoder-decoder continues texts, an image transformer reads bytes as
  // pixels; neither prints samples.
  for (const char* model :
       {"--model=small", "--model=mtf_transformer_tiny --length=16",
        "--model=mtf_transformer_tiny_lm --batch=4 --length=16",
        "--model=mtf_image_transformer --batch=2 --length=48 "
        "--config='{\"img_len\":4,\"hidden_size\":8,\"d_kv\":4,\"d_ff\":8,"
        "\"num_heads\":2,\"num_decoder_layers\":1,\"block_length\":6}'",
        "--model=gpt2_medium --batch=2 --length=8 --config='{\"layers\":1,"
        "\"d_model\":8,\"d_kv\":4,\"heads\":2,\"d_ff\":8,\"vocab\":300}'"}) {
    const Outcome run = RunMtf(absl::StrCat(data, model));
    EXPECT_EQ(run.exit_code, 0) << model << "\n" << run.errors;
    EXPECT_THAT(run.out, ContainsRegex("step 3/3  loss [0-9.]+")) << model;
    EXPECT_THAT(run.out, HasSubstr("evaluation: accuracy")) << model;
  }
  Outcome wrong = RunMtf(absl::StrCat(
      data, "--model=mtf_transformer_tiny --config='{\"d_model\":8}'"));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.errors, HasSubstr("has a config, but --config is given"));
  wrong = RunMtf(absl::StrCat(data, "--config='{\"layer\":1}'"));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.errors, HasSubstr("did you mean \"layers\"?"));
  wrong = RunMtf(absl::StrCat(data, "--model=mtf_transformer_enc_single"));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.errors, HasSubstr("sees the tokens"));
  wrong = RunMtf(
      absl::StrCat(data, "--model=mtf_transformer_tiny_lm --length=300"));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.errors, HasSubstr("max_length is 256"));
}

// The activations of a preset, which are part of what is printed and saved.
TEST_F(MtfTrain, PresetsHaveAPrecision) {
  const std::string data =
      absl::StrCat("train --data=", Path("text"),
                   " --model=mtf_unitransformer_tiny --batch=2 --length=8 "
                   "--steps=2 --mesh_shape=data:2 --layout=batch:data ");
  const auto losses = [&](const std::string& name, const std::string& flags,
                          const char* precision) {
    const Outcome run =
        RunMtf(absl::StrCat(data, flags, " --checkpoint_dir=", Path(name),
                            " --log_json=", Path(name + ".log")));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_THAT(run.out, HasSubstr(absl::StrCat(" --precision=", precision)));
    return Losses(name + ".log");
  };
  const auto own = losses("own", "", "mixed_bfloat16");
  EXPECT_EQ(own,
            losses("named", "--precision=mixed_bfloat16", "mixed_bfloat16"));
  EXPECT_NE(own, losses("wide", "--precision=float32", "float32"));
  // Evaluations compute as the training did.
  const auto evaluated = [&](const std::string& run, const std::string& flags) {
    const Outcome eval = RunMtf(absl::StrCat(
        "eval --checkpoint_dir=", Path(run), " --eval_data=", Path("held_out"),
        " --eval_batches=1 ", flags));
    EXPECT_EQ(eval.exit_code, 0) << eval.errors;
    return eval.out.substr(eval.out.find("loss "));
  };
  const std::string wide = evaluated("wide", "");
  EXPECT_EQ(wide, evaluated("wide", "--precision=float32"));
  EXPECT_NE(wide, evaluated("wide", "--precision=bfloat16"));
}

// --model says what a config without "model_type" is; so does the config that
// is exported.
TEST_F(MtfTrain, ReadsAConfigAsTheTypeOfTheModel) {
  const std::string config =
      "--config='{\"vocab_size\":257,\"hidden_size\":16,"
      "\"intermediate_size\":8,\"num_hidden_layers\":1,"
      "\"num_attention_heads\":8,\"num_local_experts\":2";
  const std::string run = "--checkpoint_dir=" + Path("run");
  Outcome outcome = RunMtf(absl::StrCat(
      "train --data=", Path("text"), " --batch=2 --length=8 --steps=1 ",
      "--model=mixtral ", config, "}' ", run));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  outcome =
      RunMtf(absl::StrCat("convert ", run, " --published=", Path("mixtral")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(ReadText(Path("mixtral/config.json")),
              HasSubstr("\"model_type\": \"mixtral\""));
  EXPECT_THAT(ReadText(Path("mixtral/model.safetensors")),
              HasSubstr("block_sparse_moe.experts"));
  outcome =
      RunMtf(absl::StrCat("train --data=", Path("text"), " --model=llama ",
                          config, ",\"model_type\":\"mixtral\"}'"));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("the config is that of a"));
}

// A preset has a batch and a length, but a checkpoint those of its training,
// also if they are the defaults of the flags.
TEST_F(MtfTrain, PresetsAreEvaluatedByTheSizesOfTheirTraining) {
  const auto evaluated = [&](const std::string& run, const std::string& sizes) {
    const Outcome eval = RunMtf(absl::StrCat(
        "eval --checkpoint_dir=", Path(run), " --eval_data=", Path("held_out"),
        " --eval_batches=1 ", sizes));
    EXPECT_EQ(eval.exit_code, 0) << eval.errors;
    const size_t begin = eval.out.find("accuracy ");
    return begin == std::string::npos ? eval.errors : eval.out.substr(begin);
  };
  // The preset has 8 sequences of 256 tokens, the flags 16 of 64.
  for (const std::string& sizes : std::vector<std::string>{
           "--batch=16 --length=12", "--batch=2 --length=64"}) {
    SCOPED_TRACE(sizes);
    const std::string run = absl::StrReplaceAll(sizes, {{" ", ""}});
    const Outcome outcome = RunMtf(absl::StrCat(
        "train --model=mtf_transformer_tiny_lm --steps=1 --data=", Path("text"),
        " --checkpoint_dir=", Path(run), " ", sizes));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    const std::string values = evaluated(run, "");
    EXPECT_EQ(values, evaluated(run, sizes));
    EXPECT_NE(values, evaluated(run, "--batch=3 --length=10"));
  }
}

// The checkpoint has the text of --config: the file may change or go.
TEST_F(MtfTrain, EvaluatesByTheConfigOfTheTraining) {
  const std::string config = Path("config.json");
  const auto write = [&](absl::string_view layers) {
    std::ofstream(config) << absl::StrCat(
        R"({"layers": )", layers,
        R"(, "d_model": 12, "heads": 2, "d_kv": 6, "d_ff": 16})");
  };
  write("1");
  const Outcome outcome = RunMtf(absl::StrCat(
      "train --config=", config, " --batch=4 --length=8 --steps=1 --data=",
      Path("text"), " --checkpoint_dir=", Path("kept")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const std::string eval =
      absl::StrCat("eval --checkpoint_dir=", Path("kept"),
                   " --eval_data=", Path("held_out"), " --eval_batches=1");
  write("2");
  const Outcome edited = RunMtf(eval);
  EXPECT_EQ(edited.exit_code, 0) << edited.errors;
  std::filesystem::remove(config);
  const Outcome removed = RunMtf(eval);
  EXPECT_EQ(removed.exit_code, 0) << removed.errors;
  EXPECT_EQ(removed.out, edited.out);
}

TEST_F(MtfTrain, TrainsEvaluatesSamplesAndSaysWhatItDoes) {
  const Outcome run =
      Train("--eval_every=10 --sample_every=20 --sample_tokens=5 --prompt=12");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(
      run.out,
      AllOf(StartsWith("one device, backend cpu"),
            ContainsRegex("flags: --batch=4 --config=.*--data="),
            ContainsRegex("step 20/20  loss [0-9.]+"),
            ContainsRegex("step 10  evaluation: accuracy 0[.][0-9]+, loss "
                          "[0-9.]+, perplexity [0-9.]+  .best."),
            HasSubstr("step 20  sample:\n12"),
            ContainsRegex("best evaluation: [0-9.]+ after step 20")));
}

TEST_F(MtfTrain, ResumesOnAnotherMeshEvaluatesAndConverts) {
  const std::string run = absl::StrCat("--checkpoint_dir=", Path("run"));
  EXPECT_EQ(Train(absl::StrCat("--log_json=", Path("whole"))).exit_code, 0);
  const std::vector<double> whole = Losses("whole");
  ASSERT_EQ(whole.size(), 20u);

  // Half of the run, then the rest on another mesh: the same losses.
  const std::string log = absl::StrCat(" --log_json=", Path("parts"));
  EXPECT_EQ(Train(absl::StrCat(run, log, " --steps=13")).exit_code, 0);
  Outcome rest = Train(absl::StrCat(
      run, log, " --resume=must --mesh_shape=data:2 --layout=batch:data"));
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.errors, "");
  const std::vector<double> parts = Losses("parts");
  ASSERT_EQ(parts.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(parts[i], whole[i], 1e-5 * whole[i]) << i;
  }

  // The flags of the model come from the checkpoint.
  const Outcome eval = RunMtf(absl::StrCat("eval ", run));
  EXPECT_EQ(eval.exit_code, 0) << eval.errors;
  EXPECT_THAT(eval.out, ContainsRegex("\nstep 20  accuracy 0[.][0-9]+, loss "));

  const std::string file = Path("model.safetensors");
  Outcome convert = RunMtf(absl::StrCat("convert ", run, " --output=", file));
  EXPECT_EQ(convert.exit_code, 0) << convert.errors;
  EXPECT_THAT(convert.out, HasSubstr("of step 20 to "));
  convert = RunMtf(absl::StrCat(
      "convert --input=", file, " --checkpoint_dir=", Path("copy"),
      " --batch=4 --length=8 --config='{\"layers\":1,\"d_model\":12,"
      "\"heads\":2,\"d_kv\":6,\"d_ff\":16}'"));
  EXPECT_EQ(convert.exit_code, 0) << convert.errors;
  const Outcome copy =
      RunMtf(absl::StrCat("eval --checkpoint_dir=", Path("copy"),
                          " --eval_data=", Path("held_out")));
  EXPECT_EQ(copy.exit_code, 0) << copy.errors;
  EXPECT_EQ(absl::StrReplaceAll(copy.out, {{"step 0 ", "step 20 "}}), eval.out);
}

TEST_F(MtfTrain, ReportsFlagsThatDiffer) {
  const std::string run = absl::StrCat("--checkpoint_dir=", Path("run"));
  EXPECT_EQ(Train(absl::StrCat(run, " --steps=3")).exit_code, 0);
  const Outcome more = Train(absl::StrCat(run, " --steps=5 --clip=0.5"));
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_THAT(more.out, AllOf(HasSubstr("note: --clip is \"0.5\"; it was \"1\" "
                                        "when the checkpoint was saved"),
                              HasSubstr("resumed after step 3 from "),
                              Not(HasSubstr("note: --steps"))));
}

// A data set of Megatron-LM: one document of `tokens` of 32 bits.
void WriteMegatron(const std::string& prefix,
                   const std::vector<int32_t>& tokens) {
  const auto little_endian = [](int64_t value, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  std::ofstream index(prefix + ".idx", std::ios::binary),
      data(prefix + ".bin", std::ios::binary);
  index << std::string("MMIDIDX\0\0", 9) << little_endian(1, 8)
        << little_endian(4, 1) << little_endian(1, 8) << little_endian(2, 8)
        << little_endian(static_cast<int64_t>(tokens.size()), 4)
        << little_endian(0, 8) << little_endian(0, 8) << little_endian(1, 8);
  for (const int32_t token : tokens) data << little_endian(token, 4);
}

TEST_F(MtfTrain, JoinsDataSetsOfMegatron) {
  std::vector<int32_t> tokens(500);
  for (int i = 0; i < 500; ++i) tokens[i] = i * i % 97;
  WriteMegatron(Path("a"), tokens);
  WriteMegatron(Path("b"), tokens);
  WriteMegatron(Path("empty"), {});
  const auto train = [&](const std::string& data) {
    return Train(
        absl::StrCat("--tokenizer=none --eval_data= --data='", data, "'"));
  };
  // A pattern lists the indices, too.
  const Outcome both = train(Path("[ab].*"));
  EXPECT_EQ(both.exit_code, 0) << both.errors;
  EXPECT_THAT(both.out, HasSubstr("step 20/20"));
  EXPECT_THAT(train(absl::StrCat(Path("a.bin"), ",", Path("empty.bin"))).errors,
              ContainsRegex("empty.bin\" has no tokens"));
  EXPECT_THAT(
      train(absl::StrCat(Path("a.bin"), ",", Path("./a.bin"))).errors,
      ContainsRegex("INVALID_ARGUMENT data file .*a.bin\" is listed twice"));
  EXPECT_THAT(train(absl::StrCat(Path("a.bin"), ",", Path("text"))).errors,
              HasSubstr("list either texts or files of tokens"));
  EXPECT_THAT(
      Train(absl::StrCat("--data=", Path("text"), ",", Path("a.bin"))).errors,
      ContainsRegex("text\" is a text, but .*a.bin\" is a file of tokens"));
}

// The log has the learning rate: a warm-up of 5 steps.
TEST_F(MtfTrain, LogsTheLearningRate) {
  const Outcome run = Train(
      absl::StrCat("--learning_rate=0.01 --steps=8 --log_json=", Path("log")));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const auto steps = train::ReadMetrics(Path("log"));
  ASSERT_OK(steps);
  ASSERT_EQ(steps->size(), 8u);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE((*steps)[i].learning_rate.has_value());
    EXPECT_NEAR(*(*steps)[i].learning_rate, 0.01 * std::min(i + 1, 5) / 5,
                1e-8);
  }
}

// --best without --eval_every evaluates each checkpoint, and keeps the best.
TEST_F(MtfTrain, EvaluatesEachCheckpointForTheBest) {
  const Outcome run =
      Train(absl::StrCat("--checkpoint_dir=", Path("run"),
                         " --save_every=7 --keep=1 --best=+accuracy"));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out, AllOf(HasSubstr("step 7  evaluation: "),
                             HasSubstr("step 14  evaluation: "),
                             HasSubstr("step 20  evaluation: "),
                             ContainsRegex("best evaluation: [0-9.]+ after ")));
  const Outcome at_the_end =
      Train(absl::StrCat("--checkpoint_dir=", Path("end"), " --best=loss"));
  EXPECT_EQ(at_the_end.exit_code, 0) << at_the_end.errors;
  EXPECT_THAT(at_the_end.out,
              AllOf(HasSubstr("best evaluation: "), HasSubstr("after step 20"),
                    Not(HasSubstr("step 10  evaluation"))));
}

// SIGTERM saves, and the next start goes on.
TEST_F(MtfTrain, ASignalSavesAndEndsWithTheCodeOfStartAgain) {
  // Ends the job after its first step, however long it takes to start.
  const std::string out = Path("out");
  const std::string command = absl::StrCat(
      "(rm -f ", out, "; ", MTF_COMMAND, " train --data=", Path("text"),
      " --batch=4 --length=8 --steps=1000000 --checkpoint_dir=", Path("run"),
      " > ", out, " & job=$!; until grep -qs tokens/s ", out,
      "; do kill -0 $job || break; sleep 0.05; done; kill -TERM $job; "
      "wait $job; code=$?; cat ",
      out, "; exit $code)");
  const Outcome stopped = testing::RunCommand(command);
  EXPECT_EQ(stopped.exit_code, 75);
  EXPECT_THAT(stopped.errors,
              AllOf(StartsWith("UNAVAILABLE training was stopped by SIGTERM "
                               "after step "),
                    HasSubstr("start the same command again")));
  const Outcome again = testing::RunCommand(command);
  EXPECT_EQ(again.exit_code, 75);
  EXPECT_THAT(again.out, ContainsRegex("resumed after step [0-9]+ from "));
}

// Adapters and a prompt are trained alone, and a run that stops goes on as if
// it had not.
TEST_F(MtfTrain, FineTunesByAdaptersAndResumes) {
  const std::string flags =
      "--adapters='**/attention' --adapter_rank=2 --prompt_length=3 "
      "--learning_rate=0.01 ";
  const Outcome whole = Train(flags + "--log_json=" + Path("whole.json"));
  EXPECT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_THAT(whole.out, HasSubstr("--adapters=**/attention"));
  const std::string saved =
      absl::StrCat(flags, "--checkpoint_dir=", Path("run"), " --save_every=10 ",
                   "--log_json=", Path("parts.json"));
  const Outcome first = Train(saved + " --steps=10");
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  const Outcome second =
      Train(saved + " --mesh_shape=data:2 --layout=batch:data");
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.out, HasSubstr("resumed after step 10"));
  const std::vector<double> one = Losses("whole.json"),
                            two = Losses("parts.json");
  ASSERT_EQ(one.size(), 20);
  ASSERT_EQ(two.size(), 20);
  for (int i = 0; i < 20; ++i) EXPECT_NEAR(one[i], two[i], 1e-5) << i;
  // The flags of adapters are those of the checkpoint.
  const Outcome eval =
      RunMtf(absl::StrCat("eval --checkpoint_dir=", Path("run")));
  EXPECT_EQ(eval.exit_code, 0) << eval.errors;
  const Outcome wrong = Train("--adapters='**/atention'");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.errors, AllOf(HasSubstr("did you mean \"**/attention\"?"),
                                  HasSubstr("trained_model.cc:")));
  EXPECT_THAT(Train("--train_only='**/biass'").errors,
              HasSubstr("matches no parameter"));
}

// Scales are restored, and the other flags say which parameters there are.
TEST_F(MtfTrain, ResumesFineTuningByTheSameFlagsOnly) {
  const std::string folder = absl::StrCat("--checkpoint_dir=", Path("run")),
                    adapters = " --adapters='**/attention' ";
  const Outcome run = Train(folder + adapters + "--steps=2");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.out + run.errors,
              ContainsRegex("parameters, such as \"model/.*mtf train: "
                            "--init_from"));
  const std::string alpha =
      "INVALID_ARGUMENT --adapter_alpha is 8, but the adapters of .*run.* were "
      "trained with 16\n.*give --adapter_alpha=16";
  const Outcome other = Train(folder + adapters + "--adapter_alpha=8");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, ContainsRegex(alpha));
  EXPECT_THAT(RunMtf("eval --adapter_alpha=8 " + folder).errors,
              ContainsRegex(alpha));
  const Outcome none = Train(folder);
  EXPECT_EQ(none.exit_code, 78) << none.errors;
  EXPECT_THAT(none.errors,
              AllOf(HasSubstr("is not of this model"),
                    HasSubstr("--adapters is \"\" but was \"**/attention\""),
                    Not(HasSubstr(".partial"))));
}

TEST_F(MtfTrain, ConvertsWithoutAPrompt) {
  const Outcome run = Train(absl::StrCat(
      "--model=gpt2 --config='{\"vocab_size\":257,\"n_positions\":16,"
      "\"n_embd\":8,\"n_layer\":1,\"n_head\":2}' --prompt_length=2 --steps=1 "
      "--checkpoint_dir=",
      Path("run")));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const std::string convert =
      absl::StrCat("convert --checkpoint_dir=", Path("run"),
                   " --published=", Path("published"));
  EXPECT_THAT(RunMtf(convert).errors,
              HasSubstr("(mtf convert: --merge_adapters=false)"));
  const Outcome without = RunMtf(convert + " --merge_adapters=false");
  EXPECT_EQ(without.exit_code, 0) << without.errors;
  EXPECT_THAT(without.out, HasSubstr("wrote the model of step 1 to "));
}

TEST_F(MtfTrain, ConvertsAdapters) {
  const std::string model =
      "--model=gpt2 --config='{\"vocab_size\":257,\"n_positions\":16,"
      "\"n_embd\":8,\"n_layer\":1,\"n_head\":2}' --adapters='**' "
      "--adapter_rank=2 ";
  const Outcome run =
      Train(absl::StrCat(model, "--checkpoint_dir=", Path("run")));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const std::string convert =
      absl::StrCat("convert --checkpoint_dir=", Path("run"));
  const Outcome adapters = RunMtf(convert + " --peft=" + Path("peft"));
  EXPECT_EQ(adapters.exit_code, 0) << adapters.errors;
  EXPECT_THAT(adapters.out, HasSubstr("wrote the adapters of step 20 to "));
  EXPECT_THAT(ReadText(Path("peft/adapter_config.json")),
              HasSubstr("\"transformer.h.0.attn.c_attn\""));
  EXPECT_THAT(RunMtf(convert + " --peft=" + Path("peft")).errors,
              HasSubstr("give a new folder"));
  const Outcome merged = RunMtf(convert + " --published=" + Path("merged"));
  EXPECT_EQ(merged.exit_code, 0) << merged.errors;
  const Outcome again =
      Train(absl::StrCat(model, "--init_from=", Path("merged"),
                         " --init_adapters=", Path("peft"), " --steps=1"));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_THAT(again.out, AllOf(HasSubstr("loaded 6 adapters from "),
                               HasSubstr("loaded 20 parameters from ")));
}

// A published model, on tokens of its small vocabulary.
TEST_F(MtfTrain, BeginsWithPublishedWeights) {
  const std::string model = absl::StrCat(MODELS_DIR, "/gpt2/");
  std::ofstream tokens(Path("tokens.bin"), std::ios::binary);
  for (int i = 0; i < 300; ++i) tokens << static_cast<char>(i * i % 37) << '\0';
  tokens.close();
  const auto train = [&](const std::string& more) {
    return RunMtf(absl::StrCat(
        "train --tokenizer=none --data=", Path("tokens.bin"), " --config=",
        model, "config.json --batch=4 --length=8 --steps=1 ", more));
  };
  const std::string weights =
      absl::StrCat("--init_from=", model, "model.safetensors ");
  const Outcome alone =
      train(absl::StrCat(weights, "--log_json=", Path("alone")));
  EXPECT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_THAT(alone.out, ContainsRegex("loaded [0-9]+ parameters from "));
  const Outcome sharded =
      train(absl::StrCat(weights, "--log_json=", Path("sharded"),
                         " --mesh_shape=model:3 --layout=megatron"));
  EXPECT_EQ(sharded.exit_code, 0) << sharded.errors;
  EXPECT_NEAR(Losses("alone")[0], Losses("sharded")[0], 1e-4);
  // Weights of another model, before anything is trained.
  const Outcome other = train(
      absl::StrCat("--init_from=", MODELS_DIR, "/llama3/model.safetensors"));
  EXPECT_EQ(other.exit_code, 66);
  EXPECT_THAT(other.errors, StartsWith("NOT_FOUND no tensor "));
}

struct WrongCall {
  std::string arguments;
  int exit_code;
  std::string message;
};

TEST_F(MtfTrain, ErrorsOfModelsHaveAWayOut) {
  for (const WrongCall& wrong : std::vector<WrongCall>{
           {"--model=gpt2 --config=", 2,
            "INVALID_ARGUMENT --model=gpt2 needs the sizes of the model\n"
            "  help     give its config.json as --config, or a --model with "
            "sizes: transformer, gpt2_medium, "},
           {"--model=vit --config=", 2,
            "INVALID_ARGUMENT --model=vit needs the sizes"},
           {"--model=gpt2_medium --config='{\"vocab\": 200}'", 2,
            "INVALID_ARGUMENT the model has a vocabulary of 200, but the "
            "tokenizer makes 257 tokens\n  help     give \"vocab\" of 257 or "
            "more in --config, or another --tokenizer"},
           {"--adapters='**' --adapter_alpha=4 --init_adapters=x", 2,
            "INVALID_ARGUMENT both --adapter_alpha and --init_adapters are "
            "given"}}) {
    SCOPED_TRACE(wrong.arguments);
    const Outcome outcome = Train(wrong.arguments);
    EXPECT_EQ(outcome.exit_code, wrong.exit_code);
    EXPECT_THAT(outcome.errors, StartsWith(wrong.message));
  }
}

TEST_F(MtfTrain, WrongFlagsAreOneMessage) {
  for (const WrongCall& wrong : std::vector<WrongCall>{
           {"--data=", 2, "INVALID_ARGUMENT no data to train on"},
           {"--data=/no/such", 66, "NOT_FOUND cannot read text"},
           {"--model=lama", 66,
            "NOT_FOUND unknown model \"lama\"; did you "
            "mean \"llama\"?"},
           {"--config=[]", 66, "NOT_FOUND "},
           {"--config='{\"layers\":0}'", 2, "INVALID_ARGUMENT "},
           {"--tokenizer=/no/such", 66, "NOT_FOUND "},
           {"--tokenizer=none", 2, "INVALID_ARGUMENT "},
           {"--optimizer=adam_w", 66, "NOT_FOUND unknown optimizer"},
           {"--schedule=step", 66, "NOT_FOUND unknown schedule"},
           {"--save_every=5", 2,
            "INVALID_ARGUMENT --save_every is given, but not --checkpoint_dir"},
           {"--patience=5", 2,
            "INVALID_ARGUMENT --patience is given, but not --eval_every"},
           {"--best=accuracy", 2,
            "INVALID_ARGUMENT --best is given, but not --eval_every"},
           {absl::StrCat("--eval_data= --best=loss --checkpoint_dir=",
                         Path("none")),
            2, "INVALID_ARGUMENT --best is given, but there is no held-out"},
           {"--patience=5 --eval_every=20", 2,
            "INVALID_ARGUMENT the patience is 5 evaluations, but the only "},
           {"--eval_data= --eval_every=5", 2,
            "INVALID_ARGUMENT --eval_every is given, but there is no"},
           {"--on_spike=stop", 2,
            "INVALID_ARGUMENT --on_spike is given, but not --spike_deviations"},
           {"--histograms_every=5", 2,
            "INVALID_ARGUMENT --histograms_every is given, but not --events"},
           {"--histograms_of=embedding", 2,
            "INVALID_ARGUMENT --histograms_of is given, but not "
            "--histograms_every"},
           {"--on_non_finite=ignore", 2,
            "INVALID_ARGUMENT flag --on_non_finite is \"ignore\", not "
            "report, "},
           {"--on_non_finite=roll_back", 2,
            "INVALID_ARGUMENT rolling back needs a saved state"},
           {"--resume=sometimes", 2,
            "INVALID_ARGUMENT flag --resume is \"sometimes\", not auto, "},
           {"--init_from=x", 2,
            "INVALID_ARGUMENT --init_from or --init_adapters is given, but"},
           {"--adapter_rank=2", 2,
            "INVALID_ARGUMENT --adapter_rank is given, but not --adapters"},
           {"--peak_of=h200", 66, "NOT_FOUND "}}) {
    SCOPED_TRACE(wrong.arguments);
    const Outcome outcome = Train(wrong.arguments);
    EXPECT_EQ(outcome.exit_code, wrong.exit_code);
    EXPECT_THAT(outcome.errors, StartsWith(wrong.message));
  }
  EXPECT_EQ(RunMtf("eval").exit_code, 2);
  EXPECT_EQ(RunMtf("eval --checkpoint_dir=/no/such").exit_code, 66);
  EXPECT_EQ(RunMtf("convert --checkpoint_dir=a").exit_code, 2);
  EXPECT_THAT(RunMtf("trian").errors, HasSubstr("did you mean \"train\"?"));
  EXPECT_THAT(RunMtf("help train").out, HasSubstr("--checkpoint_dir"));
}

}  // namespace
}  // namespace mtf
