"""A learner with an optimizer of its own: Lion in the place of AdamW.

fleet: {programs: {learner: lion_learner}}     in the folder of this file, or with it in PYTHONPATH
"""

import sys

import optax

from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.learner.program import main


class LionInner(Inner):
    """Inner steps by Lion (Chen et al., 2302.06675), with a tenth of the learning rate of AdamW."""

    def optimizer(self, settings: InnerSettings) -> optax.GradientTransformation:
        """The rate of the plan with its warm-up and cosine, scaled."""
        rate = optax.warmup_cosine_decay_schedule(
            init_value=0.0,
            peak_value=settings.lr / 10,
            warmup_steps=settings.warmup_steps,
            decay_steps=settings.decay_steps,
            end_value=settings.lr * settings.final_share / 10,
        )
        return optax.lion(rate, weight_decay=settings.weight_decay)


if __name__ == "__main__":
    sys.exit(main(inner=LionInner))
