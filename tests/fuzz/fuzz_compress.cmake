# The engine's files that read what peers send in a compressed call, without the rest of the engine.
set(ENGINE ${CMAKE_SOURCE_DIR}/src/engine)
rt_fuzz(compress SOURCES fuzz_compress.c ${ENGINE}/compress.c ${ENGINE}/compress_layout.c ${ENGINE}/compress_message.c
                         ${ENGINE}/compress_own.c ${ENGINE}/compress_piece.c ${ENGINE}/compress_result.c
                         ${ENGINE}/compress_topk.c ${ENGINE}/compress_up.c ${ENGINE}/wire.c
                         ${CMAKE_SOURCE_DIR}/src/bootstrap/calls.c FOLDERS codec reduce base)
