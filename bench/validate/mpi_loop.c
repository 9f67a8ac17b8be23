// The plain MPI loops that `trireme validate` is compared with: each collective at the sizes and with the number of calls of its rows,
// out of place where validate offers that, else in place. Prints the collective, bytes and seconds per call, averaged over the ranks.
//
//   mpicc -O2 -o mpi_loop mpi_loop.c && mpirun -n 2 mpi_loop MAX_BYTES SECONDS_PER_ROW
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;
static float *from, *to;

static void all_reduce(int count) { MPI_Allreduce(MPI_IN_PLACE, from, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void all_gather(int count) { MPI_Allgather(from, count / ranks, MPI_FLOAT, to, count / ranks, MPI_FLOAT, MPI_COMM_WORLD); }
static void reduce_scatter(int count) { MPI_Reduce_scatter_block(from, to, count / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void alltoall(int count) { MPI_Alltoall(from, count / ranks, MPI_FLOAT, to, count / ranks, MPI_FLOAT, MPI_COMM_WORLD); }
static void broadcast(int count) { MPI_Bcast(from, count, MPI_FLOAT, 0, MPI_COMM_WORLD); }
static void sendrecv(int count) {
  MPI_Sendrecv(from, count, MPI_FLOAT, (rank + 1) % ranks, 0, to, count, MPI_FLOAT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

static double seconds_of(void (*call)(int), int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) call(count);
  return (MPI_Wtime() - begin) / calls;
}

int main(int argc, char** argv) {
  const struct {
    const char* name;
    void (*call)(int);
    int is_cut;
  } kinds[] = {{"all_reduce", all_reduce, 0}, {"all_gather", all_gather, 1}, {"reduce_scatter", reduce_scatter, 1},
               {"alltoall", alltoall, 1},     {"broadcast", broadcast, 0},   {"sendrecv", sendrecv, 0}};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long most = argc > 1 ? atol(argv[1]) : 1 << 20;
  const double row = argc > 2 ? atof(argv[2]) : 0.05;
  from = malloc((size_t)most), to = malloc((size_t)most);
  for (long i = 0; i < most / 4; ++i) from[i] = (float)(i % 127 + rank + 1), to[i] = -1;
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; ++kind)
    for (long bytes = 8; bytes <= most; bytes *= 2) {
      const int count = kinds[kind].is_cut ? (int)(bytes / 4) / ranks * ranks : (int)(bytes / 4);
      if (count == 0) continue;
      seconds_of(kinds[kind].call, count, 1);
      const double once = seconds_of(kinds[kind].call, count, 1);
      int calls = once * 20 < row ? 20 : once < row ? (int)(row / once) : 1;
      MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
      const double own = seconds_of(kinds[kind].call, count, calls);
      double sum = 0;
      MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
      if (rank == 0) printf("%s %d %.9f\n", kinds[kind].name, 4 * count, sum / ranks);
    }
  free(from), free(to);
  MPI_Finalize();
  return 0;
}
