// Exit statuses of the program, the same for every command and every rank.
#pragma once

namespace trireme {

enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,               // a Failure, or a bug
  kUserError = 2,            // an error in the user's request
  kStoppedAfterSaving = 75,  // by a signal; the same command with --resume continues. EX_TEMPFAIL of sysexits.h
  kDoNotRetry = 93,          // a launch that made no progress in several attempts; schedulers must not start it again
};

}  // namespace trireme
