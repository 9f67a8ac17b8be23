// Recipe files of one test, in a folder of its own that is also where shipped recipes are looked for.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/temporary_folder.h"

namespace trireme {

class RecipeFiles : public testing::Test {
 protected:
  void SetUp() override { setenv("TRIREME_RECIPES", folder_.c_str(), 1); }
  void TearDown() override { unsetenv("TRIREME_RECIPES"); }

  std::string write(const std::string& name, const std::string& text) const { return files_.write(name, text); }

  TemporaryFolder files_;
  std::filesystem::path folder_ = files_.path();
};

}  // namespace trireme
