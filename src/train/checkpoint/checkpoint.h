// Checkpoints. A checkpoint is a folder:
//
//   step-00000100/
//     rank-00000.safetensors   the tensors of one rank, each under its global name
//     manifest.json            step, settings, trainer state; for every tensor its slice of the global tensor and its checksum
//
// It is written under a temporary name and renamed when it is whole and on the disk, so a writer that dies leaves nothing that
// looks like a checkpoint. Loading intersects the slices that are stored with those that are wanted; neither side knows the
// other's layout.
//
//   slice      the part of a global tensor that a rank holds     safetensors   the file format of a shard
//   manifest   manifest.json                                     json          JSON from files, distrusted
//   folder     what is there, what is damaged, what is kept      writer        saving, in the background
//   reader     loading, falling back past damage
#pragma once

#include "train/checkpoint/reader.h"
#include "train/checkpoint/writer.h"
