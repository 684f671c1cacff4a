"""Captures a training step of any PyTorch model as a graph that ``ac-advisor`` plans.

    ac-advisor import -- python -m ac_advisor.capture my_module:make_model --batch 1 --seq 2048 \\
        --output my.graph.json
    ac-advisor plan my.graph.json --ac full

``make_model(batch, seq)`` returns ``(module, inputs, loss_fn)``: a ``torch.nn.Module``; its inputs (a
dict of keyword arguments, a tuple, or one tensor); and what makes a scalar of its output (``None``:
the output's ``loss``). docs/graphs.md says what is captured, and why it is captured this way.
"""
