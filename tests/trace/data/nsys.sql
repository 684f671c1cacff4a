-- The tables of an export of Nsight Systems 2024 that are read, with one step of a checkpointed
-- program: process 100, its main thread 100 and the autograd thread 101.
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES
  (1, 'cudaLaunchKernel_v7000'), (2, 'cudaMemcpyAsync_v3020'), (3, 'cudaGraphLaunch_v10000'),
  (4, 'void gemm_kernel<128>(int)'), (5, 'void at::native::elementwise_kernel<4>(int)'),
  (6, 'python'), (7, 'pt_autograd_0'), (8, 'backward'), (9, 'gemm_kernel');
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
INSERT INTO ThreadNames VALUES
  (6, 0, (1 << 56) + (100 << 24) + 100), (7, 0, (1 << 56) + (100 << 24) + 101);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
  endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId) VALUES
  (0, 1000000, 59, 'step 1', (1 << 56) + (100 << 24) + 100, NULL),
  (1000000, 2000000, 59, 'step 2', (1 << 56) + (100 << 24) + 100, NULL),
  (1000000, 1200000, 59, 'forward', (1 << 56) + (100 << 24) + 100, NULL),
  (1010000, 1100000, 59, 'layers.0', (1 << 56) + (100 << 24) + 100, NULL),
  (1200000, 1800000, 59, NULL, (1 << 56) + (100 << 24) + 100, 8),
  -- the same module again, in the autograd thread: recomputation
  (1210000, 1300000, 59, 'layers.0', (1 << 56) + (100 << 24) + 101, NULL),
  -- a mark, and a range that was open when the capture ended
  (1500000, NULL, 34, 'loss is 3.5', (1 << 56) + (100 << 24) + 100, NULL),
  (1990000, NULL, 59, 'never closed', (1 << 56) + (100 << 24) + 100, NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL, callchainId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME
  (start, end, eventClass, globalTid, correlationId, nameId, returnValue) VALUES
  -- a launch of the first step, its kernel not in the capture
  (500000, 504000, 0, (1 << 56) + (100 << 24) + 100, 10, 1, 0),
  (1020000, 1024000, 0, (1 << 56) + (100 << 24) + 100, 11, 1, 0),
  (1110000, 1114000, 0, (1 << 56) + (100 << 24) + 100, 12, 1, 0),
  (1220000, 1224000, 0, (1 << 56) + (100 << 24) + 101, 13, 1, 0),
  (1400000, 1404000, 0, (1 << 56) + (100 << 24) + 101, 14, 3, 0),
  (1900000, 1904000, 0, (1 << 56) + (100 << 24) + 100, 15, 2, 0);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
  shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, graphNodeId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (1030000, 1130000, 0, 1, 7, 11, (1 << 56) + (100 << 24), 4, 9, NULL, NULL, NULL),
  (1130000, 1170000, 0, 1, 7, 12, (1 << 56) + (100 << 24), 5, 5, NULL, NULL, NULL),
  (1270000, 1370000, 0, 1, 7, 13, (1 << 56) + (100 << 24), 4, 9, NULL, NULL, NULL),
  (1410000, 1510000, 0, 1, 7, 14, (1 << 56) + (100 << 24), 4, 9, NULL, NULL, 77),
  (1510000, 1530000, 0, 1, 7, 14, (1 << 56) + (100 << 24), 5, 5, NULL, NULL, 78);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES
  (1910000, 1912000, 0, 1, 7, 15, (1 << 56) + (100 << 24), 4096, 2);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER NOT NULL, name TEXT, busLocation TEXT,
  totalMemory INTEGER, memoryBandwidth INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES
  (0, 0, 'Quadro T400', '0:1', 2147483648, 80000000000),
  (0, 1, 'NVIDIA H200', '0:2', 150754820096, 4800000000000);
-- CUDA's device 0 in this process is the second GPU.
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT);
INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 100, 'x');
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL,
  pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL,
  memoryOperationType INTEGER NOT NULL, name TEXT);
INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES
  (300, (1 << 56) + (100 << 24), 0, 1, 4096, 0, 1000, 2, 1, NULL),
  (100, (1 << 56) + (100 << 24), 0, 1, 4096, 0, 1000, 2, 0, NULL),
  (200, (1 << 56) + (100 << 24), 0, 1, 8192, 0, 500, 2, 0, NULL),
  (400, (1 << 56) + (100 << 24), 0, 1, 4096, 0, 700, 2, 0, NULL),
  (150, (1 << 56) + (100 << 24), 0, 1, 65536, 0, 99999, 1, 0, NULL);
CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL,
  typeName TEXT NOT NULL, metricId INTEGER NOT NULL, metricName TEXT NOT NULL);
INSERT INTO TARGET_INFO_GPU_METRICS VALUES
  (9472000001, 0, 'GPU', 0, 'SMs Active [Throughput %]'),
  (9472000001, 0, 'GPU', 1, 'DRAM Read Bandwidth [Throughput %]'),
  (9472000001, 0, 'GPU', 2, 'DRAM Write Bandwidth [Throughput %]');
CREATE TABLE GPU_METRICS (rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER NOT NULL,
  metricId INTEGER NOT NULL, value INTEGER NOT NULL);
INSERT INTO GPU_METRICS VALUES
  (0, 1050000, 9472000001, 0, 99), (0, 1050000, 9472000001, 1, 40), (0, 1050000, 9472000001, 2, 20),
  (0, 1200000, 9472000001, 1, 1), (0, 1200000, 9472000001, 2, 1),
  (0, 1300000, 9472000001, 1, 60), (0, 1300000, 9472000001, 2, 30),
  (0, 1350000, 9472000001, 1, 50), (0, 1350000, 9472000001, 2, 20);
