"""A handful of the laws on a GPU: `pytest -m gpu`. Collected where there is one."""

import pytest

# Collected here again, now with `device` = cuda.
from .test_adapters import (  # noqa: F401
    test_an_export_has_the_adapters_fused_into_it,
    test_an_update_is_the_plain_step_on_a_and_b,
    test_the_reference_is_the_model_without_adapters,
)
from .test_decoding import room, test_fixed_shapes_change_no_token, test_graphs_are_for_cuda  # noqa: F401
from .test_generate import (  # noqa: F401
    test_a_row_ends_with_its_first_stop_token_and_zeros_follow,
    test_first_tokens_follow_the_models_distribution,
    test_greedy_is_argmax_decoding,
    test_logp_is_the_models_at_the_sampling_temperature,
    test_padding_changes_nothing,
    test_the_seed_decides,
)
from .test_loading import test_bfloat16_has_float32_statistics  # noqa: F401
from .test_persistence import test_restore_goes_on_to_the_bit  # noqa: F401
from .test_score import (  # noqa: F401
    test_logits_are_the_models_row_by_row,
    test_statistics_are_as_defined_at_temperature_one,
    test_uniqueness_is_exactly_zero_where_the_group_agrees,
)
from .test_update import (  # noqa: F401
    test_an_update_is_the_plain_step,
    test_small_steps_add_up_in_bfloat16,
    test_what_is_not_finite_leaves_everything_as_it_was,
)

pytestmark = pytest.mark.gpu
