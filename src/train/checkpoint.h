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
//   checkpoint_slice      which part of a global tensor somebody holds       safetensors           the file format of a shard
//   checkpoint_manifest   manifest.json                                      checkpoint_json       JSON from files, distrusted
//   checkpoint_folder     what is there, what is damaged, what is kept       checkpoint_writer     saving, in the background
//   checkpoint_reader     loading, falling back past damage
#pragma once

#include "train/checkpoint_reader.h"
#include "train/checkpoint_writer.h"
