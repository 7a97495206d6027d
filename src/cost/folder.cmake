# No contraction to fused multiply-add: all ranks get the same bits, whatever their processors have.
target_compile_options(cost PRIVATE -ffp-contract=off)

# built-in.table as a string.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cost/built-in.table)
file(READ ${CMAKE_SOURCE_DIR}/src/cost/built-in.table RT_BUILT_IN)
string(REGEX REPLACE "([^\n]*)\n" "\"\\1\\\\n\"\n" RT_BUILT_IN "${RT_BUILT_IN}")
file(CONFIGURE OUTPUT ${RT_VIEWS}/built_in/built_in_table.h @ONLY CONTENT
     "/* Made from src/cost/built-in.table. */\nstatic const char built_in_table[] =\n@RT_BUILT_IN@;\n")
target_include_directories(cost PRIVATE ${RT_VIEWS}/built_in)
