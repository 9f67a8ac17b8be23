// SKIP_FOR(gpu) << "why": skips a test and says which kind of thing the machine lacks. scripts/test_summary counts by kind.
#pragma once

#include <gtest/gtest.h>

namespace trireme {

enum class SkipLabel {
  gpu,      // a GPU, or a CUDA build
  mpi,      // mpirun
  peer,     // a reference program: Python with torch, a browser, ...
  layouts,  // nothing: make test-layouts runs them
  data,     // files that scripts/fetch_goldens brings
  machine,  // a right or a library that this machine or build does not have
};

constexpr const char* skip_text(SkipLabel label) {
  constexpr const char* kTexts[] = {"gpu", "mpi", "peer", "layouts", "data", "machine"};
  return kTexts[static_cast<int>(label)];
}

}  // namespace trireme

#define SKIP_FOR(label) GTEST_SKIP() << "skip " << ::trireme::skip_text(::trireme::SkipLabel::label) << ": "
