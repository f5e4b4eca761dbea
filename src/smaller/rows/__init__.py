"""Where the data live: holders of rows answer the questions of `smaller.rows.protocol`, and never hand rows out."""

from smaller.rows.blocks import Blocks
from smaller.rows.files import Files, from_files
from smaller.rows.host import HostRows
from smaller.rows.protocol import Fold, Local, Place, Reply, Rows, Totals

__all__ = ["Blocks", "Files", "Fold", "HostRows", "Local", "Place", "Reply", "Rows", "Totals", "from_files"]
